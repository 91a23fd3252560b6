// Gradients of a model that lies on another device, or partly: the scheduler then hands copies from device to device, which
// a recording has to see through.

#include "error.h"
#include "gradient.h"
#include "tiny_model.h"

#include "ggml/tests/rpc_server.h"

#include <cmath>
#include <gtest/gtest.h>
#include <memory>

using namespace plumb;

namespace {

rpc_server * server = nullptr;
rpc_server * second = nullptr;

using model_ptr = std::unique_ptr<llama_model, void (*)(llama_model *)>;

std::vector<float> gradients_of(llama_model * model) {
    const auto         prompt = tiny_tokens(15, 4);
    const llama_token  one[] = { 1, 2, 3 }, other[] = { 9, 8 };
    const request_view request  = { prompt.data(), (int32_t) prompt.size(), 0, 0, { { one, 3 }, { other, 2 } } };
    const int32_t      layers[] = { 0, 1, 2, 3 };
    std::vector<float> out(2 * 4 * 64);
    gradient_params    params;
    params.n_ctx = 64;
    gradient_engine engine(model, params);
    engine.run({ request }, { layers, 4, false, false, nullptr, out.data(), nullptr });
    return out;
}

class devices_of_a_model : public testing::TestWithParam<std::tuple<std::string, int, bool>> {};

TEST_P(devices_of_a_model, do_not_change_its_gradients) {
    const auto & [architecture, n_gpu_layers, split] = GetParam();
    ggml_backend_dev_t rpc[] = { server->device(), split ? second->device() : nullptr, nullptr };
    const model_ptr    here(tiny_model(architecture, 1), llama_model_free);
    const model_ptr    there(tiny_model(architecture, 1, rpc, n_gpu_layers), llama_model_free);
    const auto         expected = gradients_of(here.get()), found = gradients_of(there.get());
    double             size = 0, difference = 0;
    for (size_t i = 0; i < expected.size(); i++) {
        size       = std::max(size, (double) std::fabs(expected[i]));
        difference = std::max(difference, (double) std::fabs(expected[i] - found[i]));
    }
    EXPECT_GT(size, 0.0);
    EXPECT_LT(difference, (server_rounds_gelu(architecture) ? 1e-3 : 1e-5) * size);
}

// 5: four blocks and the head on the device, or on two. 3: half of the blocks on the CPU. 0 would be the CPU alone.
INSTANTIATE_TEST_SUITE_P(rpc, devices_of_a_model,
                         testing::Combine(testing::Values("llama", "gemma3", "llama-moe", "phi3"),
                                          testing::Values(5, 3), testing::Values(false)));

INSTANTIATE_TEST_SUITE_P(two_rpc, devices_of_a_model,
                         testing::Combine(testing::Values("llama", "gemma3", "llama-moe", "phi3"), testing::Values(5),
                                          testing::Values(true)));

} // namespace

int main(int argc, char ** argv) {
    rpc_server one, other; // before anything makes a thread
    server = &one;
    second = &other;
    install_log_and_abort_handlers();
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
