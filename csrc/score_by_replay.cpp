// One batch under several steerings: one decode, and for each further steering only the blocks above the layer it acts on.

#include "error.h"
#include "session.h"

#include "ggml/replay.h"

#include <algorithm>

namespace plumb {

namespace {

// The lowest layer that is steered, or the last: up to its output nothing differs from an unsteered run.
int32_t lowest_layer(const steered_scores & to, int32_t n_layer) {
    int32_t lowest = n_layer - 1;
    for (size_t i = 0; i < to.n_steering; i++) {
        lowest = std::min(lowest, to.steering[i].layer);
    }
    return lowest;
}

bool steers(const steered_scores & to, int32_t layer) {
    return std::any_of(to.steering, to.steering + to.n_steering,
                       [layer](const plumb_steering & s) { return s.layer == layer; });
}

// A steering on its way up: what the next block reads.
struct climbing {
    const steered_scores * to;
    int32_t                lowest;
    std::vector<uint8_t>   residual;
};

} // namespace

// False where the graph is not one of blocks that read nothing of each other but the residual stream, or where the batch is
// more than one graph, whose later rows would read the keys of another steering.
bool score_job::score_by_replay(const trie_layout & layout) {
    const int32_t n_layer   = session.hooks->n_layer;
    const auto    n_outputs = std::count(layout.logits.begin(), layout.logits.end(), 1);
    if (!session.can_replay || layout.n_rows() > session.params.n_batch_rows || n_outputs > session.n_outputs_max) {
        return false;
    }
    // What is decoded is the steering that begins highest, so that every other's lowest layer is recorded unsteered.
    const steered_scores * decoded = &*std::max_element(steerings.begin(), steerings.end(),
                                                        [n_layer](const steered_scores & a, const steered_scores & b) {
                                                            return lowest_layer(a, n_layer) < lowest_layer(b, n_layer);
                                                        });
    std::vector<climbing>  others;
    int32_t                lowest = n_layer;
    for (const steered_scores & to : steerings) {
        if (&to != decoded) {
            others.push_back({ &to, lowest_layer(to, n_layer), {} });
            lowest = std::min(lowest, others.back().lowest);
        }
    }
    if (lowest < 0) {
        return false; // the embeddings are steered: nothing is shared
    }

    trace recorded(block_outputs(n_layer));
    recorded.begin(lowest + 1);
    {
        const during<trace *> recording(session.recording, &recorded);
        llama_memory_clear(llama_get_memory(session.context.get()), false);
        decode(layout, 0, layout.n_rows(), *decoded);
    }
    try {
        recorded.finish();
        devices all(session.params.n_threads, session.threads.get());
        for (int32_t b = lowest + 1; b <= n_layer; b++) {
            if (!frontier(recorded, b).empty()) {
                throw graph_error("block " + std::to_string(b) + " reads more than the residual stream");
            }
            replay block(recorded, b, all);
            block.graph().output(block.output());
            block.prepare();
            for (climbing & c : others) {
                if (c.lowest >= b) {
                    continue;
                }
                if (is_cancelled(session.cancel)) {
                    fail(PLUMB_CANCELLED, "cancelled");
                }
                const std::vector<uint8_t> & from = c.residual.empty() ? recorded.boundary(b - 1).value : c.residual;
                ggml_backend_tensor_set(block.input(), from.data(), 0, from.size());
                if (steers(*c.to, b - 1)) {
                    const std::vector<plumb_hook> plan = plan_of(c.to->steering, c.to->n_steering);
                    plumb_error                   error;
                    if (plumb_hooks_begin(session.hooks.get(), plan.data(), plan.size(), nullptr, &error) != PLUMB_OK) {
                        throw failure((plumb_status) error.status, error.message);
                    }
                    session.hooks->apply(block.input(), b - 1);
                }
                block.graph().run();
                ggml_tensor * output = block.output();
                if (b < n_layer) {
                    c.residual.resize(ggml_nbytes(output));
                    ggml_backend_tensor_get(output, c.residual.data(), 0, c.residual.size());
                    continue;
                }
                c.residual = {};
                log_probabilities(session, layout, output, c.to->logprobs);
            }
        }
    } catch (const graph_error &) {
        session.can_replay = false; // from now on each steering is decoded by itself
        return false;
    }
    return true;
}

} // namespace plumb
