#include "rule_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace plumb {

std::vector<float> values_of(const ggml_tensor * t) {
    std::vector<float> v(ggml_nelements(t));
    ggml_backend_tensor_get(t, v.data(), 0, ggml_nbytes(t));
    return v;
}

std::vector<float> problem::draw(int64_t n, float low, float high) {
    std::vector<float> v(n);
    for (float & x : v) {
        x = low + (high - low) * (float) (random() >> 8) / (float) (1 << 24);
    }
    return v;
}

ggml_tensor * problem::variable(std::vector<int64_t> ne, float low, float high) {
    ne.resize(GGML_MAX_DIMS, 1);
    ggml_tensor * t = work.input(GGML_TYPE_F32, ne.data());
    ggml_format_name(t, "variable %zu", variables.size());
    variables.push_back(t);
    values.push_back(draw(ggml_nelements(t), low, high));
    return t;
}

ggml_tensor * problem::constant(std::vector<int64_t> ne, float low, float high) {
    int64_t n = 1;
    for (int64_t size : ne) {
        n *= size;
    }
    return filled(GGML_TYPE_F32, ne, draw(n, low, high));
}

void problem::avoid(float point, float distance) {
    for (float & x : values[0]) {
        if (std::fabs(x - point) < distance) {
            x = point + (x < point ? -distance : distance);
        }
    }
}

ggml_tensor * rule_check::weight(problem & p, ggml_type type, std::vector<int64_t> ne) {
    ne.resize(GGML_MAX_DIMS, 1);
    contexts.emplace_back(ggml_init({ ggml_tensor_overhead(), nullptr, true }), ggml_free);
    ggml_tensor * t = ggml_new_tensor(contexts.back().get(), type, GGML_MAX_DIMS, ne.data());
    ggml_set_name(t, "weight");
    buffers.emplace_back(ggml_backend_alloc_ctx_tensors(contexts.back().get(), where.backend.get()),
                         ggml_backend_buffer_free);
    ggml_backend_buffer_set_usage(buffers.back().get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);

    const std::vector<float> v = p.draw(ggml_nelements(t), -1.0f, 1.0f);
    std::vector<uint8_t>     data(ggml_nbytes(t));
    if (type == GGML_TYPE_F32) {
        memcpy(data.data(), v.data(), data.size());
    } else {
        ggml_quantize_chunk(type, v.data(), data.data(), 0, ggml_nrows(t), ne[0], nullptr);
    }
    ggml_backend_tensor_set(t, data.data(), 0, data.size());
    return t;
}

static std::vector<ggml_tensor *> nodes_of(ggml_tensor * result) {
    std::unique_ptr<ggml_context, void (*)(ggml_context *)> ctx(
        ggml_init({ ggml_graph_overhead_custom(200, false), nullptr, true }), ggml_free);
    ggml_cgraph * graph = ggml_new_graph_custom(ctx.get(), 200, false);
    ggml_build_forward_expand(graph, result);
    return { ggml_graph_nodes(graph), ggml_graph_nodes(graph) + ggml_graph_n_nodes(graph) };
}

std::string rule_check::operator()(const std::function<ggml_tensor *(problem &)> & build, float step,
                                   double tolerance) {
    workspace     work(where, 1000);
    problem       p(work);
    ggml_tensor * result = build(p);
    work.output(result);
    const std::vector<float> seed = p.draw(ggml_nelements(result), -1.0f, 1.0f);

    differentiation d(work, copies);
    for (ggml_tensor * x : p.variables) {
        d.variable(x);
    }
    d.seed(result, p.filled(GGML_TYPE_F32, { result->ne, result->ne + GGML_MAX_DIMS }, seed));
    d.run(nodes_of(result));
    std::vector<ggml_tensor *> gradients;
    for (ggml_tensor * x : p.variables) {
        ggml_tensor * g = d.gradient(x);
        if (!g) {
            return std::string(x->name) + " has no gradient";
        }
        gradients.push_back(d.contiguous(g));
        work.output(gradients.back());
    }
    work.prepare();

    auto loss = [&] {
        for (size_t v = 0; v < p.variables.size(); v++) {
            ggml_backend_tensor_set(p.variables[v], p.values[v].data(), 0, ggml_nbytes(p.variables[v]));
        }
        work.run();
        const std::vector<float> y   = values_of(result);
        double                   sum = 0;
        for (size_t i = 0; i < y.size(); i++) {
            sum += (double) seed[i] * y[i];
        }
        return sum;
    };
    loss();
    std::vector<std::vector<float>> analytic;
    for (const ggml_tensor * g : gradients) {
        analytic.push_back(values_of(g));
    }
    for (size_t v = 0; v < p.variables.size(); v++) {
        double largest = 0, worst = 0;
        for (size_t i = 0; i < p.values[v].size(); i++) {
            const float x  = p.values[v][i];
            auto        at = [&](float by) {
                p.values[v][i] = x + by;
                return loss();
            };
            // Four points: the error falls with the fourth power of the step, which can then be large beside rounding.
            const double slope = (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12.0 * step);
            p.values[v][i]     = x;
            const double off   = std::fabs(slope - analytic[v][i]);
            largest            = std::max(largest, std::fabs(slope));
            worst              = std::isfinite(off) ? std::max(worst, off) : INFINITY;
        }
        if (!(largest > 0) || !(worst <= tolerance * largest)) {
            return std::string(p.variables[v]->name) + ": off by " + std::to_string(worst) + ", largest component " +
                   std::to_string(largest);
        }
    }
    return "";
}

} // namespace plumb
