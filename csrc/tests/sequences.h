// Sequences for plumb_session_residuals.

#pragma once

#include "plumb.h"

#include <cstdint>
#include <vector>

struct sequences {
    std::vector<int32_t> n_tokens, tokens, n_positions, positions;

    void add(const std::vector<int32_t> & sequence, const std::vector<int32_t> & at) {
        n_tokens.push_back((int32_t) sequence.size());
        tokens.insert(tokens.end(), sequence.begin(), sequence.end());
        n_positions.push_back((int32_t) at.size());
        positions.insert(positions.end(), at.begin(), at.end());
    }

    plumb_sequences get() const {
        return { (int32_t) n_tokens.size(), n_tokens.data(), tokens.data(), n_positions.data(), positions.data() };
    }
};

// Every prompt with each of its continuations, read at the last token.
inline sequences ends_of(const plumb_requests & requests) {
    sequences       all;
    const int32_t * token = requests.tokens;
    for (int32_t r = 0, c = 0; r < requests.n_requests; r++) {
        const std::vector<int32_t> prompt(token, token + requests.n_prompt[r]);
        token += prompt.size();
        for (int32_t k = 0; k < requests.n_continuations[r]; k++, c++) {
            std::vector<int32_t> whole = prompt;
            whole.insert(whole.end(), token, token + requests.n_tokens[c]);
            token += requests.n_tokens[c];
            all.add(whole, { (int32_t) whole.size() - 1 });
        }
    }
    return all;
}
