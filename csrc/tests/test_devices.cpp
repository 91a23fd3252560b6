// Hooks, scoring and generation of a model that lies on another device, on two, or partly on the CPU: what Plumb reads and
// writes is then not memory of this process.

#include "error.h"
#include "sequences.h"
#include "session.h"
#include "tiny_model.h"

#include "ggml/tests/rpc_server.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <memory>

using namespace plumb;

namespace {

rpc_server * servers[2];

struct placement {
    const char * name;
    int          n_devices;
    int          n_gpu_layers; // 5: four blocks and the head
};

const placement placements[] = {
    { "one_device", 1, 5 }, { "device_and_cpu", 1, 3 }, { "two_devices", 2, 5 }, { "two_devices_and_cpu", 2, 3 }
};

struct placed_model {
    llama_model * llama;
    plumb_model * model;

    placed_model(const std::string & architecture, const placement & p) {
        ggml_backend_dev_t devices[3] = {};
        for (int i = 0; i < p.n_devices; i++) {
            devices[i] = servers[i]->device();
        }
        llama = tiny_model(architecture, 1, devices, p.n_gpu_layers);
        model = plumb_model_borrow(llama, 1, nullptr);
    }

    ~placed_model() {
        plumb_model_free(model);
        llama_model_free(llama);
    }
};

constexpr placement on_cpu = { "cpu", 0, 0 };

// Three prompts, two of which share their start, with two continuations each.
struct requests {
    std::vector<int32_t> n_prompt{ 12, 9, 5 }, n_continuations{ 2, 2, 2 }, n_tokens{ 3, 2, 1, 4, 2, 2 }, tokens;

    requests() {
        const auto shared = tiny_tokens(7, 20);
        for (size_t r = 0, c = 0; r < n_prompt.size(); r++) {
            const auto own = tiny_tokens(n_prompt[r], 30 + (uint32_t) r);
            tokens.insert(tokens.end(), own.begin(), own.end());
            if (r < 2) {
                std::copy(shared.begin(), shared.end(), tokens.end() - n_prompt[r]);
            }
            for (int32_t k = 0; k < n_continuations[r]; k++, c++) {
                const auto continuation = tiny_tokens(n_tokens[c], 40 + (uint32_t) c);
                tokens.insert(tokens.end(), continuation.begin(), continuation.end());
            }
        }
    }

    plumb_requests get() const {
        return { 3, n_prompt.data(), n_continuations.data(), n_tokens.data(), tokens.data() };
    }

    static constexpr size_t n_scores = 14;
};

using session_ptr = std::unique_ptr<plumb_session, void (*)(plumb_session *)>;

session_ptr session_of(const placed_model & m) {
    plumb_session_params params = plumb_session_params_default();
    params.n_ctx = params.n_batch_rows = 128;
    plumb_error error;
    session_ptr session(plumb_session_new(m.model, &params, &error), plumb_session_free);
    EXPECT_TRUE(session) << error.message;
    return session;
}

double distance(const std::vector<float> & a, const std::vector<float> & b) {
    EXPECT_EQ(a.size(), b.size());
    double d = 0;
    for (size_t i = 0; i < a.size(); i++) {
        EXPECT_TRUE(std::isfinite(a[i]) && std::isfinite(b[i]));
        d = std::max(d, (double) std::fabs(a[i] - b[i]));
    }
    return d;
}

// Steerings that act at every layer, or at several, by both operators.
struct steerings {
    std::vector<float>                       v, w;
    std::vector<std::vector<plumb_steering>> sets;

    explicit steerings(const llama_model * model) : v(llama_model_n_embd(model)), w(v.size()) {
        for (size_t i = 0; i < v.size(); i++) {
            v[i] = std::sin(1.0f + i) * 0.5f;
            w[i] = std::cos(2.0f * i);
        }
        sets.push_back({});
        for (int32_t layer = 0; layer < llama_model_n_layer(model); layer++) {
            sets.push_back({ { layer, PLUMB_HOOK_ADD, 1.0f, v.data() } });
            sets.push_back({ { layer, PLUMB_HOOK_PROJECT_OUT, 1.0f, w.data() } });
        }
        sets.push_back({ { 1, PLUMB_HOOK_PROJECT_OUT, 1.0f, v.data() }, { 3, PLUMB_HOOK_ADD, -0.5f, w.data() } });
    }
};

std::vector<float> scores(plumb_session * session, const std::vector<plumb_steering> & steering) {
    const requests       r;
    const plumb_requests c = r.get();
    std::vector<float>   out(requests::n_scores, NAN);
    int32_t              statuses[3];
    plumb_error          error;
    EXPECT_EQ(plumb_session_score(session, &c, steering.data(), steering.size(), nullptr, out.data(), statuses, nullptr,
                                  &error),
              PLUMB_OK)
        << error.message;
    return out;
}

std::vector<float> residuals(plumb_session * session, int32_t n_layer, int32_t n_embd) {
    std::vector<int32_t> layers;
    for (int32_t layer = PLUMB_LAYER_EMBEDDING; layer < n_layer; layer++) {
        layers.push_back(layer);
    }
    const requests        r;
    const plumb_requests  c = r.get();
    std::vector<float>    out(6 * layers.size() * n_embd, NAN);
    std::vector<int32_t>  statuses(6);
    const sequences       ends = ends_of(c);
    const plumb_sequences s    = ends.get();
    plumb_error           error;
    EXPECT_EQ(plumb_session_residuals(session, &s, nullptr, 0, layers.data(), (int32_t) layers.size(), nullptr,
                                      statuses.data(), out.data(), &error),
              PLUMB_OK)
        << error.message;
    return out;
}

// A program of somebody else's that reads, steers, restores and disturbs chosen rows in one decode: what it reads, and the
// logits after.
std::vector<float> hooked_rows(const placed_model & m) {
    plumb_error                                           error;
    std::unique_ptr<plumb_hooks, void (*)(plumb_hooks *)> hooks(plumb_hooks_new(m.llama, &error), plumb_hooks_free);
    llama_context_params                                  cp = llama_context_default_params();
    cp.n_ctx = cp.n_batch = cp.n_ubatch = 64;
    cp.n_threads = cp.n_threads_batch = 1;
    cp.flash_attn_type                = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    cp.type_k = cp.type_v = GGML_TYPE_F32;
    cp.kv_unified         = true;
    cp.cb_eval            = plumb_hooks_eval;
    cp.cb_eval_user_data  = hooks.get();
    std::unique_ptr<llama_context, void (*)(llama_context *)> context(llama_init_from_model(m.llama, cp), llama_free);
    auto                                                      tokens = tiny_tokens(20, 9);
    std::vector<int8_t>                                       logits(20, 0);
    logits[19]        = 1;
    llama_batch batch = llama_batch_get_one(tokens.data(), 20);
    batch.logits      = logits.data();

    const size_t       n_embd = llama_model_n_embd(m.llama);
    std::vector<float> v(n_embd), states(2 * n_embd), read(3 * n_embd, NAN);
    for (size_t i = 0; i < n_embd; i++) {
        v[i]      = std::sin((float) i);
        states[i] = std::cos((float) i), states[n_embd + i] = 0.1f * i;
    }
    const int32_t noisy[] = { 2, 3, 4 }, restored[] = { 5, 11 }, steered[] = { 7, 12, 13 };
    const float   factors[] = { 2.0f, -1.0f, 0.5f };
    plumb_hook    noise = {}, restore = {}, add = {}, look = {};
    noise.layer = PLUMB_LAYER_EMBEDDING, noise.op = PLUMB_HOOK_NOISE, noise.strength = 0.3f, noise.seed = 42;
    noise.rows = noisy, noise.n_rows = 3;
    restore.layer = 0, restore.op = PLUMB_HOOK_RESTORE, restore.vector = states.data();
    restore.rows = restored, restore.n_rows = 2;
    add.layer = 1, add.op = PLUMB_HOOK_ADD, add.vector = v.data(), add.strength = 1.5f;
    add.rows = steered, add.n_rows = 3, add.row_strength = factors;
    look.layer = 2, look.op = PLUMB_HOOK_READ, look.out = read.data(), look.rows = steered, look.n_rows = 3;
    const plumb_hook       plan[] = { noise, restore, add, look };
    const plumb_batch_rows rows   = { 20, tokens.data(), logits.data() };
    EXPECT_EQ(plumb_hooks_begin(hooks.get(), plan, 4, &rows, &error), PLUMB_OK) << error.message;
    EXPECT_EQ(llama_decode(context.get(), batch), 0);
    EXPECT_EQ(plumb_hooks_end(hooks.get(), &error), PLUMB_OK) << error.message;
    const float * l = llama_get_logits_ith(context.get(), -1);
    read.insert(read.end(), l, l + llama_vocab_n_tokens(llama_model_get_vocab(m.llama)));
    return read;
}

class placed : public testing::TestWithParam<std::tuple<std::string, placement>> {
  protected:
    const std::string  architecture = std::get<0>(GetParam());
    const placed_model here{ architecture, on_cpu };
    const placed_model there{ architecture, std::get<1>(GetParam()) };
    const int32_t      n_layer = llama_model_n_layer(here.llama), n_embd = llama_model_n_embd(here.llama);
};

INSTANTIATE_TEST_SUITE_P(rpc, placed,
                         testing::Combine(testing::Values("llama", "gemma3", "llama-moe", "phi3", "gpt2"),
                                          testing::ValuesIn(placements)),
                         [](const auto & info) {
                             std::string name = std::get<0>(info.param) + "_" + std::get<1>(info.param).name;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

TEST_P(placed, give_the_cpus_scores_and_residual_streams) {
    const auto      a = session_of(here), b = session_of(there);
    const steerings s(here.llama);
    const auto      plain   = scores(a.get(), {});
    const bool      rounded = server_rounds_gelu(architecture);
    for (size_t i = 0; i < s.sets.size(); i++) {
        const auto expected = scores(a.get(), s.sets[i]);
        EXPECT_LT(distance(scores(b.get(), s.sets[i]), expected), rounded ? 5e-3 : 1e-4) << "steering " << i;
        EXPECT_EQ(distance(expected, plain) > 1e-3, i > 0) << "steering " << i << " must do something";
    }
    EXPECT_LT(distance(residuals(b.get(), n_layer, n_embd), residuals(a.get(), n_layer, n_embd)),
              rounded ? 2e-2 : 1e-3);
}

// Several steerings of one decode replay blocks, each on the device that holds it.
TEST_P(placed, give_the_scores_of_each_of_several_steerings) {
    const auto                      b = session_of(there);
    const steerings                 s(here.llama);
    std::vector<plumb_steering_set> sets;
    for (const auto & set : s.sets) {
        sets.push_back({ set.data(), set.size() });
    }
    const requests       r;
    const plumb_requests c = r.get();
    std::vector<float>   together(sets.size() * requests::n_scores, NAN);
    std::vector<int32_t> statuses(sets.size() * 3);
    int64_t              n_computed = 0;
    plumb_error          error;
    ASSERT_EQ(plumb_session_score_sets(b.get(), &c, sets.data(), sets.size(), nullptr, together.data(), statuses.data(),
                                       &n_computed, &error),
              PLUMB_OK)
        << error.message;
    // there llama.cpp copies nodes of Gemma from device to device whose names do not tell them apart: no replay
    EXPECT_EQ(b->can_replay,
              architecture != "gemma3" || std::get<1>(GetParam()).name != std::string("two_devices_and_cpu"));
    for (size_t i = 0; i < sets.size(); i++) {
        const auto at = together.begin() + i * requests::n_scores;
        EXPECT_LT(distance({ at, at + requests::n_scores }, scores(b.get(), s.sets[i])), 1e-4) << "steering " << i;
    }
}

TEST_P(placed, hook_the_same_rows) {
    EXPECT_LT(distance(hooked_rows(there), hooked_rows(here)), 1e-3);
}

TEST_P(placed, generate_the_same_text) {
    const auto           prompt = tiny_tokens(10, 77);
    const steerings      s(here.llama);
    const plumb_sampling greedy = { 1, 0.0f, 1.0f };
    std::vector<int32_t> texts[2];
    const placed_model * models[] = { &here, &there };
    for (int i = 0; i < 2; i++) {
        const auto session = session_of(*models[i]);
        int32_t    n       = 0;
        texts[i].resize(12);
        plumb_error error;
        ASSERT_EQ(plumb_session_generate(session.get(), prompt.data(), 10, s.sets[3].data(), 1, &greedy, 12, nullptr,
                                         texts[i].data(), &n, &error),
                  PLUMB_OK)
            << error.message;
        texts[i].resize(n);
    }
    EXPECT_FALSE(texts[0].empty());
    EXPECT_EQ(texts[0], texts[1]);
}

TEST_P(placed, pass_the_self_test) {
    plumb_self_test result;
    plumb_error     error;
    ASSERT_EQ(plumb_model_self_test(there.model, &result, &error), PLUMB_OK) << error.message;
    EXPECT_TRUE(result.hooks_fire) << result.reason;
    EXPECT_TRUE(result.trie_matches) << result.reason;
}

} // namespace

int main(int argc, char ** argv) {
    rpc_server one, other; // before anything makes a thread
    servers[0] = &one;
    servers[1] = &other;
    install_log_and_abort_handlers();
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
