// Causal tracing's runs: one request, again and again with corrupted embeddings and one state restored.
//
// The rows of a run are those of the request as a token trie. What stands before the first of them that a run changes it
// shares with others; from there on it has copies of its own, for sequences of its own.

#pragma once

#include "session.h"

#include <vector>

namespace plumb {

struct patch_job {
    plumb_session &      session;
    const request_view & request;
    const plumb_noise &  noise;
    const plumb_patch *  patches;
    int32_t              n_patches;
    float *              logprobs;

    int32_t n_scored = 0; // tokens of all continuations

    void run();

  private:
    void check() const;
    void decode_runs(const trie_layout & rows);
    bool decode_once_and_replay(const trie_layout & rows);
};

// Adds a copy of the layout's rows from first on, for sequences from first_sequence on, and with the targets to go to
// logprobs from first_out on. The rows before stand, as they are, at the beginning of the layout that is added to, or in the
// context's memory.
void append_run(trie_layout & to, const trie_layout & rows, int32_t first, int32_t first_sequence, int32_t first_out);

// How many sequences pass through a layout's first row: all of one request's.
inline int32_t n_sequences(const trie_layout & rows) {
    return (int32_t) rows.sequences[0].size();
}

int32_t n_outputs(const trie_layout & rows);

} // namespace plumb
