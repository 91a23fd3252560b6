// Reading: batches of sequences through the blocks up to the highest layer that is read.

#include "error.h"
#include "finite.h"
#include "session.h"

#include <algorithm>

namespace plumb {

int32_t read_job::highest_layer() const {
    return *std::max_element(layers, layers + n_layers);
}

void read_job::run() {
    // the last block computes only the rows whose logits are asked for
    const bool as_outputs = highest_layer() == session.hooks->n_layer - 1;
    for (size_t from = 0; from < sequences.size();) {
        const size_t next =
            from + count_that_share_a_batch(session, sequences.size() - from, [&](trie & batch, size_t i) {
                batch.add(sequences[from + i], as_outputs);
            });
        trie batch;
        for (size_t s = from; s < next; s++) {
            const bool too_long = sequences[s].n_tokens > session.params.n_ctx;
            statuses[s]         = too_long ? PLUMB_TOO_LONG : PLUMB_OK;
            if (!too_long) {
                batch.add(sequences[s], as_outputs);
            }
        }
        if (batch.current().n_rows > 0) {
            read(batch.layout());
        }
        const size_t size = (size_t) n_layers * session.hooks->n_embd;
        for (size_t s = from; s < next; s++) {
            const float * p = out + sequences[s].first_position * size;
            if (statuses[s] == PLUMB_OK && !all_finite(p, sequences[s].n_positions * size)) {
                statuses[s] = PLUMB_NOT_FINITE;
            }
        }
        from = next;
    }
}

// Decodes the layout, in graphs of at most n_batch_rows rows, and puts what is read where it belongs.
void read_job::read(const trie_layout & layout) {
    llama_memory_clear(llama_get_memory(session.context.get()), false);
    const size_t  n_embd  = session.hooks->n_embd;
    const int32_t highest = highest_layer();
    for (int32_t begin = 0; begin < layout.n_rows();) {
        const int32_t        end = end_of_graph(session, layout, begin);
        std::vector<int32_t> rows; // of this graph that are read, ascending; sequences may be read in the same row
        for (const trie_read & r : layout.reads) {
            if (r.row >= begin && r.row < end) {
                rows.push_back(r.row - begin);
            }
        }
        std::sort(rows.begin(), rows.end());
        rows.erase(std::unique(rows.begin(), rows.end()), rows.end());

        // steering acts first, so that what is read is the steered residual stream
        std::vector<plumb_hook> plan = plan_of(steering, n_steering);
        plan.erase(std::remove_if(plan.begin(), plan.end(), [&](const plumb_hook & h) { return h.layer > highest; }),
                   plan.end());
        std::vector<float> values(rows.size() * n_layers * n_embd);
        for (int32_t l = 0; l < n_layers; l++) {
            plumb_hook h = {};
            h.layer      = layers[l];
            h.op         = PLUMB_HOOK_READ;
            h.rows       = rows.data();
            h.n_rows     = (int32_t) rows.size();
            h.out        = values.data() + l * rows.size() * n_embd;
            plan.push_back(h);
        }
        decode_rows(session, layout, begin, end, plan, nullptr);
        for (const trie_read & r : layout.reads) {
            if (r.row < begin || r.row >= end) {
                continue;
            }
            const size_t i = std::lower_bound(rows.begin(), rows.end(), r.row - begin) - rows.begin();
            for (int32_t l = 0; l < n_layers; l++) {
                const float * from = values.data() + (l * rows.size() + i) * n_embd;
                std::copy(from, from + n_embd, out + ((size_t) r.out * n_layers + l) * n_embd);
            }
        }
        begin = end;
    }
}

} // namespace plumb

plumb_status plumb_session_residuals(plumb_session * session, const plumb_sequences * sequences,
                                     const plumb_steering * steering, size_t n_steering, const int32_t * layers,
                                     int32_t n_layers, plumb_cancel * cancel, int32_t * statuses, float * out,
                                     plumb_error * error) {
    const plumb::during<const plumb_cancel *> cancelled_by(session->cancel, cancel);
    return plumb::guarded(error, [&] {
        if (n_layers < 1) {
            plumb::fail(PLUMB_INVALID, "no layer to read");
        }
        const auto views = plumb::view_sequences(*sequences, llama_vocab_n_tokens(session->model->vocab));
        plumb::read_job{ *session, views, steering, n_steering, layers, n_layers, statuses, out }.run();
    });
}
