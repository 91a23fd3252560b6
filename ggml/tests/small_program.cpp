#include "small_program.h"

#include "ggml-cpu.h"

#include <random>

namespace plumb {

ggml_tensor * small_program::weight(int64_t n, int64_t m) {
    w.push_back(ggml_new_tensor_2d(weights.get(), GGML_TYPE_F32, n, m));
    return w.back();
}

small_program::small_program(kind k)
    : what(k), backend(ggml_backend_cpu_init(), ggml_backend_free), sched(nullptr, ggml_backend_sched_free),
      weights(ggml_init({ 16 * ggml_tensor_overhead(), nullptr, true }), ggml_free),
      states(ggml_init({ 2 * ggml_tensor_overhead(), nullptr, true }), ggml_free) {
    ggml_backend_cpu_set_n_threads(backend.get(), 1);
    ggml_backend_t one = backend.get();
    sched.reset(ggml_backend_sched_new(&one, nullptr, 1, 256, false, false));

    for (int i = 0; i < 6; i++) {
        weight(width, width);
    }
    weight(width, n_out);
    weight_buffer.reset(ggml_backend_alloc_ctx_tensors(weights.get(), one));
    ggml_backend_buffer_set_usage(weight_buffer.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    cache = ggml_new_tensor_2d(states.get(), GGML_TYPE_F32, width, n_cells);
    ggml_set_name(cache, "cache");
    state_buffer.reset(ggml_backend_alloc_ctx_tensors(states.get(), one));

    std::mt19937 random(1);
    auto         fill = [&](ggml_tensor * t) {
        std::vector<float> v(ggml_nelements(t));
        for (float & x : v) {
            x = (float) random() / 4294967296.0f - 0.5f;
        }
        ggml_backend_tensor_set(t, v.data(), 0, ggml_nbytes(t));
    };
    for (ggml_tensor * t : w) {
        fill(t);
    }
    fill(cache);
}

// Cells are keys and values at once.
ggml_tensor * small_program::attention(ggml_context * ctx, ggml_tensor * query, ggml_tensor * seen) {
    ggml_tensor * scores = ggml_soft_max(ctx, ggml_mul_mat(ctx, seen, query));
    return ggml_mul_mat(ctx, ggml_cont(ctx, ggml_transpose(ctx, seen)), scores);
}

ggml_tensor * small_program::build(ggml_context * ctx, ggml_cgraph * graph) {
    auto leaf = [&](ggml_type type, int64_t n, int64_t m, const char * name) {
        ggml_tensor * t = ggml_new_tensor_2d(ctx, type, n, m);
        ggml_set_input(t);
        return ggml_set_name(t, name);
    };
    input = leaf(GGML_TYPE_F32, width, n_rows, "input");
    cells = leaf(GGML_TYPE_I64, n_rows, 1, "cells");
    other = leaf(GGML_TYPE_F32, width, n_rows, "CPU#twin#0");

    ggml_tensor * early = ggml_set_name(ggml_tanh(ctx, ggml_mul_mat(ctx, w[0], input)), "early");
    ggml_build_forward_expand(graph, early);
    ggml_tensor * h = ggml_set_name(ggml_mul_mat(ctx, w[1], input), "out-0");
    ggml_build_forward_expand(graph, h);

    ggml_tensor * x = ggml_mul_mat(ctx, w[2], h);
    if (what == recurrent) {
        ggml_tensor * before = ggml_view_2d(ctx, cache, width, n_rows, cache->nb[1], 0);
        x                    = ggml_set_name(ggml_add(ctx, x, before), "update");
        ggml_build_forward_expand(graph, ggml_cpy(ctx, x, before));
    } else if (what == overwritten) {
        ggml_tensor * changed = ggml_scale_inplace(ctx, x, 2.0f);
        ggml_build_forward_expand(graph, changed);
        x = ggml_set_name(ggml_add(ctx, changed, x), "too late");
    } else if (what == ruleless) {
        x = ggml_set_name(ggml_cumsum(ctx, x), "running total");
    } else if (what == ambiguous) {
        ggml_tensor * one = ggml_set_name(ggml_sqr(ctx, x), "twin");
        ggml_tensor * two = ggml_set_name(ggml_sin(ctx, x), "twin");
        x                 = ggml_add(ctx, ggml_add(ctx, one, two), other);
    }
    ggml_tensor * written = ggml_set_rows(ctx, cache, x, cells);
    ggml_build_forward_expand(graph, written);
    ggml_tensor * seen = ggml_view_2d(ctx, cache, width, n_cells - 1, cache->nb[1], 0);
    h                  = ggml_set_name(ggml_add(ctx, h, attention(ctx, ggml_mul_mat(ctx, w[3], h), seen)), "out-1");
    ggml_build_forward_expand(graph, h);

    ggml_tensor * again = ggml_view_2d(ctx, cache, width, n_cells, cache->nb[1], 0);
    ggml_tensor * mixed = ggml_mul(ctx, early, ggml_mul_mat(ctx, w[4], attention(ctx, h, again)));
    h                   = ggml_set_name(ggml_add(ctx, h, mixed), "out-2");
    ggml_build_forward_expand(graph, h);

    h                    = ggml_rms_norm(ctx, h, 1e-5f);
    ggml_tensor * capped = ggml_tanh(ctx, ggml_scale(ctx, ggml_mul_mat(ctx, w[6], h), 0.5f));
    ggml_tensor * result = ggml_set_name(ggml_scale(ctx, capped, 2.0f), "result");
    ggml_build_forward_expand(graph, result);
    return result;
}

std::vector<float> small_program::run(const callback & on_node) {
    context_ptr ctx(ggml_init({ 256 * ggml_tensor_overhead() + ggml_graph_overhead_custom(256, false), nullptr, true }),
                    ggml_free);
    ggml_cgraph * graph  = ggml_new_graph_custom(ctx.get(), 256, false);
    ggml_tensor * result = build(ctx.get(), graph);
    ggml_set_output(result);
    running = &on_node;
    ggml_backend_sched_reset(sched.get());
    ggml_backend_sched_set_eval_callback(
        sched.get(), [](ggml_tensor * t, bool ask, void * p) { return (*((small_program *) p)->running)(t, ask); },
        this);
    ggml_backend_sched_alloc_graph(sched.get(), graph);

    std::vector<float> x(width * n_rows);
    for (size_t i = 0; i < x.size(); i++) {
        x[i] = (float) ((i * 7) % 11) / 5.0f - 1.0f;
    }
    const int64_t to[n_rows] = { 4, 1, 2 };
    ggml_backend_tensor_set(input, x.data(), 0, ggml_nbytes(input));
    ggml_backend_tensor_set(cells, to, 0, sizeof to);
    if (other->buffer) {
        ggml_backend_tensor_set(other, x.data(), 0, ggml_nbytes(other));
    }
    ggml_backend_sched_graph_compute(sched.get(), graph);
    std::vector<float> out(n_out * n_rows);
    ggml_backend_tensor_get(result, out.data(), 0, ggml_nbytes(result));
    return out;
}

std::vector<float> small_program::run_nudged(const std::string & node, int64_t row, const std::vector<float> & by) {
    return run([&](ggml_tensor * t, bool ask) {
        if (node != t->name) {
            return !ask;
        }
        if (!ask) {
            std::vector<float> h(width);
            ggml_backend_tensor_get(t, h.data(), row * t->nb[1], width * sizeof(float));
            for (int64_t i = 0; i < width; i++) {
                h[i] += by[i];
            }
            ggml_backend_tensor_set(t, h.data(), row * t->nb[1], width * sizeof(float));
        }
        return true;
    });
}

} // namespace plumb
