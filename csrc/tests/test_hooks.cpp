// Hooks in a llama_context that is not Plumb's.

#include "plumb.h"
#include "row_ops.h"
#include "tiny_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

using namespace plumb;

namespace {

// A program of somebody else's: its own context, with Plumb's callback in it.
struct program {
    llama_model *   model;
    plumb_hooks *   hooks;
    llama_context * ctx;
    llama_batch     batch;
    int32_t         n_embd, n_layer;

    explicit program(uint32_t n_ubatch = 64, const std::string & architecture = "llama")
        : model(tiny_model(architecture, 3)) {
        hooks                   = plumb_hooks_new(model, nullptr);
        llama_context_params cp = llama_context_default_params();
        cp.n_ctx                = 64;
        cp.n_batch              = 64;
        cp.n_ubatch             = n_ubatch;
        cp.flash_attn_type      = LLAMA_FLASH_ATTN_TYPE_DISABLED;
        cp.n_threads = cp.n_threads_batch = 1;
        cp.type_k = cp.type_v = GGML_TYPE_F32;
        cp.kv_unified         = true;
        cp.cb_eval            = plumb_hooks_eval;
        cp.cb_eval_user_data  = hooks;
        ctx                   = llama_init_from_model(model, cp);
        n_embd                = llama_model_n_embd(model);
        n_layer               = llama_model_n_layer(model);
        batch                 = llama_batch_init(64, 0, 1);
        const auto tokens     = tiny_tokens(20, 9);
        batch.n_tokens        = 20;
        for (int i = 0; i < 20; i++) {
            batch.token[i]     = tokens[i];
            batch.pos[i]       = i;
            batch.n_seq_id[i]  = 1;
            batch.seq_id[i][0] = 0;
            batch.logits[i]    = i >= 15;
        }
    }

    ~program() {
        llama_batch_free(batch);
        llama_free(ctx);
        plumb_hooks_free(hooks);
        llama_model_free(model);
    }

    plumb_batch_rows rows() const { return { batch.n_tokens, batch.token, batch.logits }; }

    // The logits of the last row after decoding the batch under the plan.
    std::vector<float> run(const std::vector<plumb_hook> & plan, bool per_batch = true) {
        plumb_error            error;
        const plumb_batch_rows r = rows();
        EXPECT_EQ(plumb_hooks_begin(hooks, plan.data(), plan.size(), per_batch ? &r : nullptr, &error), PLUMB_OK)
            << error.message;
        return decode(PLUMB_OK);
    }

    std::vector<float> decode(plumb_status expected) {
        plumb_error error;
        llama_memory_clear(llama_get_memory(ctx), true);
        EXPECT_EQ(llama_decode(ctx, batch), 0);
        EXPECT_EQ(plumb_hooks_end(hooks, &error), expected) << error.message;
        const float * logits = llama_get_logits_ith(ctx, batch.n_tokens - 1);
        return { logits, logits + llama_vocab_n_tokens(llama_model_get_vocab(model)) };
    }

    plumb_status begin(plumb_hook hook, std::string * message = nullptr, bool per_batch = true) {
        plumb_error            error;
        const plumb_batch_rows r      = rows();
        const plumb_status     status = plumb_hooks_begin(hooks, &hook, 1, per_batch ? &r : nullptr, &error);
        if (message) {
            *message = error.message;
        }
        return status;
    }
};

plumb_hook hook(int32_t layer, plumb_hook_op op, const float * vector = nullptr, float strength = 1.0f) {
    plumb_hook h = {};
    h.layer      = layer;
    h.op         = op;
    h.vector     = vector;
    h.strength   = strength;
    return h;
}

double distance(const std::vector<float> & a, const std::vector<float> & b) {
    double d = 0;
    for (size_t i = 0; i < a.size(); i++) {
        d = std::max(d, (double) std::fabs(a[i] - b[i]));
    }
    return d;
}

// Reads every layer at the given rows.
std::vector<std::vector<float>> read_layers(program & p, std::vector<plumb_hook> plan,
                                            const std::vector<int32_t> & rows) {
    std::vector<std::vector<float>> out(p.n_layer + 1, std::vector<float>(rows.size() * p.n_embd, NAN));
    for (int32_t layer = -1; layer < p.n_layer; layer++) {
        plumb_hook h = hook(layer, PLUMB_HOOK_READ);
        h.rows       = rows.data();
        h.n_rows     = (int32_t) rows.size();
        h.out        = out[layer + 1].data();
        plan.push_back(h);
    }
    p.run(plan);
    return out;
}

} // namespace

TEST(hooks, read_does_not_change_the_model) {
    program    p;
    const auto before = p.run({});
    read_layers(p, {}, { 15, 19 });
    EXPECT_EQ(p.run({}), before);
}

TEST(hooks, rows_are_the_batchs_also_in_several_graphs) {
    const std::vector<int32_t> rows = { 15, 17, 19 };
    program                    one(64), many(6);
    const auto                 a = read_layers(one, {}, rows), b = read_layers(many, {}, rows);
    for (size_t layer = 0; layer < a.size(); layer++) {
        for (float x : a[layer]) {
            ASSERT_TRUE(std::isfinite(x));
        }
        EXPECT_LT(distance(a[layer], b[layer]), 1e-4) << "layer " << (int) layer - 1;
    }
}

TEST(hooks, steer_chosen_rows_with_their_own_strengths) {
    program            p;
    std::vector<float> v(p.n_embd);
    for (int32_t i = 0; i < p.n_embd; i++) {
        v[i] = std::sin(i);
    }
    const std::vector<int32_t> rows     = { 16, 18 };
    const std::vector<float>   strength = { 2.0f, -0.5f };
    const std::vector<int32_t> all      = { 15, 16, 17, 18, 19 };
    plumb_hook                 h        = hook(1, PLUMB_HOOK_ADD, v.data(), 3.0f);
    h.rows                              = rows.data();
    h.n_rows                            = 2;
    h.row_strength                      = strength.data();
    const auto               before = read_layers(p, {}, all), after = read_layers(p, { h }, all);
    const std::vector<float> factor = { 0, 6.0f, 0, -1.5f, 0 };
    for (size_t r = 0; r < all.size(); r++) {
        for (int32_t i = 0; i < p.n_embd; i++) {
            const size_t k = r * p.n_embd + i;
            EXPECT_NEAR(after[2][k], before[2][k] + factor[r] * v[i], 1e-4); // layer 1
            EXPECT_EQ(after[1][k], before[1][k]);                            // layer 0 lies before
        }
    }
}

TEST(hooks, restoring_every_row_gives_the_clean_run) {
    program              p;
    std::vector<int32_t> all(20);
    for (int i = 0; i < 20; i++) {
        all[i]            = i;
        p.batch.logits[i] = 1;
    }
    const auto                 clean  = p.run({});
    const auto                 states = read_layers(p, {}, all);
    plumb_hook                 noise  = hook(PLUMB_LAYER_EMBEDDING, PLUMB_HOOK_NOISE, nullptr, 0.5f);
    const std::vector<int32_t> noisy  = { 3, 4, 5 };
    noise.rows                        = noisy.data();
    noise.n_rows                      = 3;
    noise.seed                        = 42;
    const auto corrupted              = p.run({ noise });
    EXPECT_GT(distance(clean, corrupted), 1e-3);
    EXPECT_EQ(p.run({ noise }), corrupted) << "the same seed, the same noise";
    noise.strength = 0;
    EXPECT_EQ(p.run({ noise }), clean);
    noise.strength = 0.5f;
    for (int32_t layer = -1; layer < p.n_layer; layer++) {
        plumb_hook restore = hook(layer, PLUMB_HOOK_RESTORE, states[layer + 1].data());
        restore.rows       = all.data();
        restore.n_rows     = 20;
        EXPECT_LT(distance(p.run({ noise, restore }), clean), 1e-5) << "layer " << layer;
    }
    // restoring only rows before the noise changes nothing
    plumb_hook restore = hook(0, PLUMB_HOOK_RESTORE, states[1].data());
    restore.rows       = all.data();
    restore.n_rows     = 3;
    EXPECT_EQ(p.run({ noise, restore }), corrupted);
}

TEST(hooks, a_plan_without_a_batch_lasts) {
    program            p;
    std::vector<float> v(p.n_embd, 0.3f);
    const auto         plain   = p.run({});
    const auto         steered = p.run({ hook(1, PLUMB_HOOK_ADD, v.data()) }, false);
    EXPECT_GT(distance(plain, steered), 1e-3);
    EXPECT_EQ(p.decode(PLUMB_OK), steered);
    EXPECT_EQ(p.run({}), plain) << "and ends with the next plan";
}

TEST(hooks, refuse_what_would_be_silently_wrong) {
    program            p;
    std::string        why;
    std::vector<float> v(p.n_embd, 1.0f), zero(p.n_embd, 0.0f), broken(p.n_embd, 1.0f), out(64 * p.n_embd);
    broken[7] = NAN;
    EXPECT_EQ(p.begin(hook(p.n_layer, PLUMB_HOOK_ADD, v.data()), &why), PLUMB_INVALID);
    EXPECT_NE(why.find("layers 0 to"), std::string::npos) << why;
    EXPECT_EQ(p.begin(hook(-2, PLUMB_HOOK_ADD, v.data())), PLUMB_INVALID);
    EXPECT_EQ(p.begin(hook(0, PLUMB_HOOK_ADD)), PLUMB_INVALID);
    EXPECT_EQ(p.begin(hook(0, PLUMB_HOOK_PROJECT_OUT, zero.data())), PLUMB_INVALID);
    EXPECT_EQ(p.begin(hook(0, PLUMB_HOOK_ADD, broken.data())), PLUMB_INVALID);
    EXPECT_EQ(p.begin(hook(0, PLUMB_HOOK_ADD, v.data(), INFINITY)), PLUMB_INVALID);
    EXPECT_EQ(p.begin(hook(0, PLUMB_HOOK_READ)), PLUMB_INVALID);
    plumb_hook h = hook(0, PLUMB_HOOK_READ);
    h.out        = out.data();
    EXPECT_EQ(p.begin(h, nullptr, false), PLUMB_INVALID) << "reading needs to know the batch";
    h.layer = p.n_layer - 1;
    EXPECT_EQ(p.begin(h), PLUMB_INVALID) << "not every row reaches the last layer's output";
    const std::vector<int32_t> rows = { 3, 3 };
    h.layer                         = 0;
    h.rows                          = rows.data();
    h.n_rows                        = 2;
    EXPECT_EQ(p.begin(h), PLUMB_INVALID);
    const std::vector<int32_t> early = { 2 };
    h.layer                          = p.n_layer - 1;
    h.rows                           = early.data();
    h.n_rows                         = 1;
    EXPECT_EQ(p.begin(h), PLUMB_INVALID) << "row 2 is not an output";

    // a batch that is decoded in another order, or not at all
    const auto swapped = p.batch.token[0];
    h.layer            = 0;
    ASSERT_EQ(p.begin(h), PLUMB_OK);
    p.batch.token[0] = (swapped + 1) % 100;
    p.decode(PLUMB_HOOK_NOT_FIRED);
    p.batch.token[0] = swapped;
    ASSERT_EQ(p.begin(h), PLUMB_OK);
    plumb_error error;
    EXPECT_EQ(plumb_hooks_end(p.hooks, &error), PLUMB_HOOK_NOT_FIRED);
}

TEST(gaussian, is_standard_and_a_function_of_its_arguments) {
    double    sum = 0, squares = 0, fourth = 0, lag = 0, last = 0;
    const int n = 200000;
    for (int i = 0; i < n; i++) {
        const double x = gaussian(11, i / 500, i % 500);
        sum += x;
        squares += x * x;
        fourth += x * x * x * x;
        lag += x * last;
        last = x;
    }
    EXPECT_NEAR(sum / n, 0, 0.01);
    EXPECT_NEAR(squares / n, 1, 0.015);
    EXPECT_NEAR(fourth / n, 3, 0.1);
    EXPECT_NEAR(lag / n, 0, 0.01);
    EXPECT_EQ(gaussian(11, 3, 4), gaussian(11, 3, 4));
    EXPECT_NE(gaussian(11, 3, 4), gaussian(11, 4, 3));
    EXPECT_NE(gaussian(11, 3, 4), gaussian(12, 3, 4));
}
