// Causal tracing's runs: one request, again and again with corrupted embeddings and one state restored.
//
// What stands before the first token that any run changes is computed once; from there on every run has rows of its own.

#include "error.h"
#include "session.h"

#include <algorithm>
#include <cmath>

namespace plumb {

namespace {

struct patch_job {
    plumb_session &      session;
    const request_view & request;
    const plumb_noise &  noise;
    const plumb_patch *  patches;
    int32_t              n_patches;
    float *              logprobs;

    int32_t n_shared = 0; // tokens that all runs share
    int32_t n_scored = 0; // of all continuations

    void run();

  private:
    // One run of some of the continuations: all of them, or one where sequences cannot be together.
    struct unit {
        int32_t patch;
        size_t  first, last; // continuations
    };

    struct batch {
        trie_layout                       layout;
        std::vector<std::vector<int32_t>> noise_rows;    // one list a unit
        std::vector<int32_t>              restored_rows; // one a unit; -1: none
        std::vector<int32_t>              patch;         // one a unit
        int32_t                           n_outputs   = 0;
        int32_t                           n_sequences = 0;
    };

    int32_t n_rows(const unit & u) const;
    int32_t n_outputs(const unit & u) const;
    void    check() const;
    void    add(batch & b, const unit & u) const;
    void    decode(batch & b) const;
};

int32_t patch_job::n_rows(const unit & u) const {
    int32_t n = request.n_prompt - n_shared;
    for (size_t c = u.first; c < u.last; c++) {
        n += request.continuations[c].second - 1;
    }
    return n;
}

int32_t patch_job::n_outputs(const unit & u) const {
    return n_rows(u) - (request.n_prompt - n_shared) + 2; // the last prompt token, and a restored one in the last block
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
    }
}

void patch_job::add(batch & b, const unit & u) const {
    trie_layout & l              = b.layout;
    const int32_t first_sequence = b.n_sequences;
    const int32_t n_sequences    = (int32_t) (u.last - u.first);
    b.n_sequences += n_sequences;
    b.n_outputs += n_outputs(u);
    std::vector<int32_t> all;
    for (int32_t s = 0; s < n_sequences; s++) {
        all.push_back(first_sequence + s);
    }
    auto row = [&](int32_t token, int32_t pos, const std::vector<int32_t> & sequences, bool logits) {
        l.token.push_back(token);
        l.pos.push_back(pos);
        l.sequences.push_back(sequences);
        l.logits.push_back(logits);
        return l.n_rows() - 1;
    };
    if (l.n_rows() == 0) {
        for (int32_t i = 0; i < n_shared; i++) {
            row(request.prompt[i], i, {}, false);
        }
    }
    for (int32_t i = 0; i < n_shared; i++) {
        l.sequences[i].insert(l.sequences[i].end(), all.begin(), all.end());
    }
    const plumb_patch &  patch    = patches[u.patch];
    const bool           restores = patch.position >= 0;
    const bool           at_end   = restores && patch.layer == session.hooks->n_layer - 1;
    std::vector<int32_t> noise_rows;
    int32_t              restored = -1;
    int32_t              last     = -1;
    for (int32_t i = n_shared; i < request.n_prompt; i++) {
        // in the last block only rows with logits exist
        last = row(request.prompt[i], i, all, i == request.n_prompt - 1 || (at_end && i == patch.position));
        if (std::binary_search(noise.positions, noise.positions + noise.n_positions, i)) {
            noise_rows.push_back(last);
        }
        if (restores && i == patch.position) {
            restored = last;
        }
    }
    int32_t out = request.first_token + u.patch * n_scored;
    for (size_t c = 0; c < u.last; c++) {
        const auto [tokens, n] = request.continuations[c];
        int32_t at             = last;
        for (int32_t i = 0; c >= u.first && i < n; i++) {
            l.targets.push_back({ at, tokens[i], out + i });
            if (i + 1 < n) {
                at = row(tokens[i], request.n_prompt + i, { first_sequence + (int32_t) (c - u.first) }, true);
            }
        }
        out += n;
    }
    b.noise_rows.push_back(noise_rows);
    b.restored_rows.push_back(restored);
    b.patch.push_back(u.patch);
}

void patch_job::decode(batch & b) const {
    std::vector<plumb_hook> plan;
    for (const auto & rows : b.noise_rows) {
        if (!rows.empty() && noise.strength != 0) {
            plumb_hook h = {};
            h.layer      = PLUMB_LAYER_EMBEDDING;
            h.op         = PLUMB_HOOK_NOISE;
            h.strength   = noise.strength;
            h.seed       = noise.seed;
            h.rows       = rows.data();
            h.n_rows     = (int32_t) rows.size();
            plan.push_back(h);
        }
    }
    for (size_t i = 0; i < b.restored_rows.size(); i++) {
        if (b.restored_rows[i] >= 0) {
            plumb_hook h = {};
            h.layer      = patches[b.patch[i]].layer;
            h.op         = PLUMB_HOOK_RESTORE;
            h.vector     = patches[b.patch[i]].vector;
            h.rows       = &b.restored_rows[i];
            h.n_rows     = 1;
            plan.push_back(h);
        }
    }
    llama_memory_clear(llama_get_memory(session.context.get()), false);
    decode_rows(session, b.layout, 0, b.layout.n_rows(), plan, logprobs);
}

void patch_job::run() {
    check();
    n_shared = request.n_prompt - 1;
    for (int32_t i = 0; i < noise.n_positions; i++) {
        n_shared = std::min(n_shared, noise.positions[i]);
    }
    for (int32_t p = 0; p < n_patches; p++) {
        n_shared = patches[p].position < 0 ? n_shared : std::min(n_shared, patches[p].position);
    }
    for (const auto & [tokens, n] : request.continuations) {
        (void) tokens;
        n_scored += n;
    }
    const size_t      n_continuations = request.continuations.size();
    const bool        together        = session.params.use_trie;
    const size_t      step            = together ? n_continuations : 1;
    std::vector<unit> units;
    for (int32_t p = 0; p < n_patches; p++) {
        for (size_t c = 0; c < n_continuations; c += step) {
            units.push_back({ p, c, c + step });
        }
    }
    const int32_t n_rows_max      = std::min(session.params.n_batch_rows, session.params.n_ctx);
    const int32_t n_sequences_max = (int32_t) llama_n_seq_max(session.context.get());
    for (size_t at = 0; at < units.size();) {
        if (n_shared + n_rows(units[at]) > n_rows_max || n_outputs(units[at]) > session.n_outputs_max) {
            fail(PLUMB_TOO_LONG, "prompt and continuations are %d rows; one graph computes %d",
                 n_shared + n_rows(units[at]), n_rows_max);
        }
        batch b;
        do {
            add(b, units[at++]);
        } while (together && at < units.size() && b.layout.n_rows() + n_rows(units[at]) <= n_rows_max &&
                 b.n_outputs + n_outputs(units[at]) <= session.n_outputs_max &&
                 b.n_sequences + (int32_t) (units[at].last - units[at].first) <= n_sequences_max);
        decode(b);
    }
    for (int32_t i = 0; i < n_patches * n_scored; i++) {
        if (!std::isfinite(logprobs[i])) {
            fail(PLUMB_NOT_FINITE, "the model's output is not a number (noise beyond what it bears?)");
        }
    }
}

} // namespace

} // namespace plumb

plumb_status plumb_session_patch(plumb_session * session, const plumb_requests * request, const plumb_noise * noise,
                                 const plumb_patch * patches, int32_t n_patches, plumb_cancel * cancel,
                                 float * logprobs, plumb_error * error) {
    session->cancel           = cancel;
    const plumb_status status = plumb::guarded(error, [&] {
        const auto views = plumb::view_requests(*request, llama_vocab_n_tokens(session->model->vocab));
        if (views.size() != 1) {
            plumb::fail(PLUMB_INVALID, "%zu requests are not one", views.size());
        }
        plumb::patch_job job = { *session, views[0], *noise, patches, n_patches, logprobs };
        job.run();
    });
    session->cancel           = nullptr;
    return status;
}
