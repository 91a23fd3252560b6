#include "patch.h"

#include "error.h"
#include "finite.h"

#include <algorithm>
#include <cmath>

namespace plumb {

int32_t n_outputs(const trie_layout & rows) {
    return (int32_t) std::count(rows.logits.begin(), rows.logits.end(), 1);
}

void append_run(trie_layout & to, const trie_layout & rows, int32_t first, int32_t first_sequence, int32_t first_out) {
    const int32_t moved = to.n_rows() - first;
    for (int32_t r = first; r < rows.n_rows(); r++) {
        to.token.push_back(rows.token[r]);
        to.pos.push_back(rows.pos[r]);
        to.logits.push_back(rows.logits[r]);
        std::vector<int32_t> & sequences = to.sequences.emplace_back(rows.sequences[r]);
        for (int32_t & s : sequences) {
            s += first_sequence;
        }
    }
    for (const trie_target & t : rows.targets) {
        to.targets.push_back({ t.row + moved, t.token, t.out + first_out });
    }
}

void patch_job::check() const {
    for (int32_t i = 0; i < noise.n_positions; i++) {
        if (noise.positions[i] < (i ? noise.positions[i - 1] + 1 : 0) || noise.positions[i] >= request.n_prompt) {
            fail(PLUMB_INVALID, "the positions of the noise are not ascending indices below %d", request.n_prompt);
        }
    }
    for (int32_t p = 0; p < n_patches; p++) {
        if (patches[p].position >= request.n_prompt) {
            fail(PLUMB_INVALID, "a patch is at position %d of a prompt of %d tokens", patches[p].position,
                 request.n_prompt);
        }
        if (patches[p].position < 0) {
            continue;
        }
        if (patches[p].layer < PLUMB_LAYER_EMBEDDING || patches[p].layer >= session.hooks->n_layer) {
            fail(PLUMB_INVALID, "there is no layer %d: the model has layers 0 to %d (and -1, the embeddings)",
                 patches[p].layer, session.hooks->n_layer - 1);
        }
        const float * v = patches[p].vector;
        if (!v || !all_finite(v, session.hooks->n_embd)) {
            fail(PLUMB_INVALID, "the vector of a patch at layer %d %s", patches[p].layer,
                 v ? "holds a NaN or an infinity" : "is missing");
        }
    }
}

// Every run by all blocks, as many in one graph as it has room for.
void patch_job::decode_runs(const trie_layout & rows) {
    int32_t n_shared = request.n_prompt - 1;
    if (noise.n_positions > 0) {
        n_shared = std::min(n_shared, noise.positions[0]);
    }
    for (int32_t p = 0; p < n_patches; p++) {
        n_shared = patches[p].position < 0 ? n_shared : std::min(n_shared, patches[p].position);
    }
    const int32_t n_rows_max      = std::min(session.params.n_batch_rows, session.params.n_ctx);
    const int32_t n_sequences_max = (int32_t) llama_n_seq_max(session.context.get());
    const int32_t n_rows_each     = rows.n_rows() - n_shared;
    const int32_t n_outputs_each  = n_outputs(rows) + 1; // and a restored row of the last block
    const int32_t n_at_once = std::min({ (n_rows_max - n_shared) / n_rows_each, session.n_outputs_max / n_outputs_each,
                                         n_sequences_max / n_sequences(rows) });
    if (n_at_once < 1) {
        fail(PLUMB_TOO_LONG,
             "prompt and continuations are %d tokens, of which %d are scored; one graph computes %d tokens and scores "
             "%d: "
             "take a shorter pair",
             rows.n_rows(), n_outputs(rows), n_rows_max, session.n_outputs_max - 1);
    }
    for (int32_t begin = 0; begin < n_patches; begin += n_at_once) {
        const int32_t n = std::min(n_at_once, n_patches - begin);
        trie_layout   batch;
        for (int32_t r = 0; r < n_shared; r++) {
            batch.token.push_back(rows.token[r]);
            batch.pos.push_back(rows.pos[r]);
            batch.logits.push_back(0);
            std::vector<int32_t> & all = batch.sequences.emplace_back();
            for (int32_t s = 0; s < n * n_sequences(rows); s++) {
                all.push_back(s);
            }
        }
        std::vector<std::vector<int32_t>> noise_rows(n);
        std::vector<int32_t>              restored_row(n);
        std::vector<plumb_hook>           plan;
        for (int32_t i = 0; i < n; i++) {
            const plumb_patch & patch = patches[begin + i];
            const int32_t       moved = batch.n_rows() - n_shared;
            append_run(batch, rows, n_shared, i * n_sequences(rows), (begin + i) * n_scored);
            for (int32_t k = 0; k < noise.n_positions; k++) {
                noise_rows[i].push_back(noise.positions[k] + moved);
            }
            if (!noise_rows[i].empty() && noise.strength != 0) {
                plumb_hook h = {};
                h.layer      = PLUMB_LAYER_EMBEDDING;
                h.op         = PLUMB_HOOK_NOISE;
                h.strength   = noise.strength;
                h.seed       = noise.seed;
                h.rows       = noise_rows[i].data();
                h.n_rows     = noise.n_positions;
                plan.push_back(h);
            }
            if (patch.position >= 0) {
                restored_row[i] = patch.position + moved;
                plumb_hook h    = {};
                h.layer         = patch.layer;
                h.op            = PLUMB_HOOK_RESTORE;
                h.vector        = patch.vector;
                h.rows          = &restored_row[i];
                h.n_rows        = 1;
                plan.push_back(h);
                if (patch.layer == session.hooks->n_layer - 1) {
                    batch.logits[restored_row[i]] = 1; // in the last block only rows with logits exist
                }
            }
        }
        llama_memory_clear(llama_get_memory(session.context.get()), false);
        decode_rows(session, batch, 0, batch.n_rows(), plan, logprobs);
    }
}

void patch_job::run() {
    check();
    for (const auto & [tokens, n] : request.continuations) {
        (void) tokens;
        n_scored += n;
    }
    if (session.params.use_trie) {
        trie all;
        all.add(request);
        const trie_layout rows = all.layout();
        if (!decode_once_and_replay(rows)) {
            decode_runs(rows);
        }
    } else {
        for (size_t c = 0; c < request.continuations.size(); c++) {
            trie alone;
            alone.add(request, c);
            decode_runs(alone.layout());
        }
    }
    for (int32_t i = 0; i < n_patches * n_scored; i++) {
        if (!std::isfinite(logprobs[i])) {
            fail(PLUMB_NOT_FINITE, "the model's output is not a number (noise beyond what it bears?)");
        }
    }
}

} // namespace plumb

plumb_status plumb_session_patch(plumb_session * session, const plumb_requests * request, const plumb_noise * noise,
                                 const plumb_patch * patches, int32_t n_patches, plumb_cancel * cancel,
                                 float * logprobs, plumb_error * error) {
    const plumb::during<const plumb_cancel *> cancelled_by(session->cancel, cancel);
    return plumb::guarded(error, [&] {
        const auto views = plumb::view_requests(*request, llama_vocab_n_tokens(session->model->vocab));
        if (views.size() != 1) {
            plumb::fail(PLUMB_INVALID, "%zu requests are not one", views.size());
        }
        plumb::patch_job job = { *session, views[0], *noise, patches, n_patches, logprobs };
        job.run();
    });
}
