#include "backward.h"

#include "differentiate.h"
#include "replay.h"

#include <algorithm>
#include <unordered_map>

namespace plumb {

namespace {

std::vector<uint8_t> bytes(const std::vector<float> & v) {
    return { (const uint8_t *) v.data(), (const uint8_t *) (v.data() + v.size()) };
}

// The gradient with respect to the last boundary, as a tensor of its clone's graph.
ggml_tensor * seed_of(const output_loss & loss, replay & head) {
    workspace &   work   = head.graph();
    ggml_tensor * output = head.output();
    const int64_t n = output->ne[0], rows = output->ne[1];
    const int64_t column[] = { 1, rows, 1, 1 };
    if (head.picked()) {
        return work.constant(GGML_TYPE_F32, column, bytes(loss.weights));
    }
    std::vector<float> chosen(n * rows, 0.0f);
    for (int64_t r = 0; r < rows; r++) {
        chosen[r * n + loss.columns[r]] = loss.weights[r];
    }
    ggml_tensor * seed = work.constant(GGML_TYPE_F32, output->ne, bytes(chosen));
    if (!loss.log_softmax) {
        return seed;
    }
    work.require(3);
    ggml_tensor * weights     = work.constant(GGML_TYPE_F32, column, bytes(loss.weights));
    ggml_tensor * probability = ggml_soft_max(work.context(), output);
    return ggml_sub(work.context(), seed, ggml_mul(work.context(), probability, weights));
}

struct wanted {
    ggml_tensor *      of;       // a variable of the block
    const traced *     node;     // what it is in the recording
    ggml_tensor *      gradient; // null: zero
    std::vector<float> value;
};

} // namespace

std::vector<const traced *> missing_values(const trace & recorded, int32_t lowest) {
    std::vector<const traced *> missing;
    for (int32_t b = lowest + 1; b < (int32_t) recorded.n_blocks(); b++) {
        for (const traced * f : frontier(recorded, b)) {
            const bool in_cache = f->view_src && f->view_src->kind == traced::state;
            if (!in_cache && f->value.empty() && std::find(missing.begin(), missing.end(), f) == missing.end()) {
                missing.push_back(f);
            }
        }
    }
    return missing;
}

void backward(const trace & recorded, const output_loss & loss, int32_t lowest, devices & all,
              transposed_weights & weights, const gradient_sink & sink) {
    const int32_t top = (int32_t) recorded.n_blocks() - 1;
    if (lowest < 0 || lowest >= top) {
        throw graph_error("no gradient at boundary " + std::to_string(lowest));
    }
    const traced & last = recorded.boundary(top);
    if (last.ne[1] * last.ne[2] * last.ne[3] != (int64_t) loss.columns.size() ||
        *std::max_element(loss.columns.begin(), loss.columns.end()) >= last.ne[0]) {
        throw graph_error(last.name + ": its shape does not fit the loss");
    }
    // Gradients with respect to what blocks above read; they leave when the block that computed it has been differentiated.
    std::unordered_map<const traced *, std::vector<float>> pending;

    for (int32_t b = top; b > lowest; b--) {
        const bool  is_head = b == top;
        replay      block(recorded, b, all, max_tensors_a_rule, is_head && !loss.log_softmax ? &loss.columns : nullptr);
        workspace & work = block.graph();
        differentiation d(work, weights);

        const traced &      below = recorded.boundary(b - 1);
        std::vector<wanted> variables{ { block.input(), &below, nullptr, {} } };
        for (const traced * f : frontier(recorded, b)) {
            // What was computed below the lowest boundary does not depend on any that is asked for.
            if (f->index > recorded.boundary(lowest).index) {
                variables.push_back({ block.of(*f), f, nullptr, {} });
            }
        }
        for (wanted & v : variables) {
            d.variable(v.of);
        }
        if (is_head) {
            d.seed(block.output(), seed_of(loss, block));
        }
        for (auto it = pending.begin(); it != pending.end();) {
            ggml_tensor * t = it->first->index >= recorded.block_begin(b) ? block.of(*it->first) : nullptr;
            if (!t) {
                ++it;
                continue;
            }
            d.seed(t, work.constant(GGML_TYPE_F32, t->ne, bytes(it->second)));
            it = pending.erase(it);
        }
        d.run(block.nodes());

        for (wanted & v : variables) {
            v.gradient = d.gradient(v.of);
            if (v.gradient) {
                work.require(1);
                v.gradient = d.contiguous(v.gradient);
                work.output(v.gradient);
            }
        }
        work.prepare();
        ggml_backend_tensor_set(block.input(), below.value.data(), 0, below.value.size());
        work.run();

        for (wanted & v : variables) {
            std::vector<float> & sum = pending[v.node];
            v.value.assign(ggml_nelements(v.of), 0.0f);
            if (v.gradient) {
                ggml_backend_tensor_get(v.gradient, v.value.data(), 0, v.value.size() * sizeof(float));
            }
            sum.resize(v.value.size(), 0.0f);
            std::transform(sum.begin(), sum.end(), v.value.begin(), sum.begin(), std::plus<float>());
        }
        weights.release();
        sink(b - 1, pending[&below]);
    }
}

} // namespace plumb
