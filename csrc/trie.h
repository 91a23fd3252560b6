// Token tries: how requests and sequences are laid into a batch so that what they share is computed once.

#pragma once

#include "plumb.h"

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace plumb {

// One request, as pointers into a plumb_requests.
struct request_view {
    const int32_t * prompt;
    int32_t         n_prompt;
    int32_t         first_continuation; // over all requests
    int32_t         first_token;        // of its continuations', over all requests' continuations
    std::vector<std::pair<const int32_t *, int32_t>> continuations;
};

// Checks the shape (lengths of at least 1, tokens below n_vocab) and cuts the flat arrays into requests.
std::vector<request_view> view_requests(const plumb_requests & requests, int32_t n_vocab);

// A sequence and where it is read, as pointers into a plumb_sequences.
struct sequence_view {
    const int32_t * tokens;
    int32_t         n_tokens;
    const int32_t * positions;
    int32_t         n_positions;
    int32_t         first_position; // over all sequences
};

// Likewise; positions must ascend within their sequence.
std::vector<sequence_view> view_sequences(const plumb_sequences & sequences, int32_t n_vocab);

// A log-probability to compute: that of token, after row, goes to logprobs[out].
struct trie_target {
    int32_t row;
    int32_t token;
    int32_t out;
};

// A position to read: what is read of the row is that of the out-th position.
struct trie_read {
    int32_t row;
    int32_t out;
};

// The rows of a batch. A row stands before every row that continues it.
struct trie_layout {
    std::vector<int32_t>              token;
    std::vector<int32_t>              pos;
    std::vector<std::vector<int32_t>> sequences; // that pass through the row
    std::vector<int8_t>               logits;    // whether the row's are needed
    std::vector<trie_target>          targets;
    std::vector<trie_read>            reads;

    int32_t n_rows() const { return (int32_t) token.size(); }
};

class trie {
  public:
    struct size {
        int32_t n_rows      = 0;
        int32_t n_outputs   = 0; // rows whose logits are needed, at most
        int32_t n_sequences = 0;
    };

    // Adds a request, or one continuation of it alone. A continuation's last token predicts nothing and has no row.
    void add(const request_view & request);
    void add(const request_view & request, size_t continuation);

    // Adds a sequence. as_outputs: it is read where only rows with logits are, in the last block.
    void add(const sequence_view & sequence, bool as_outputs);

    size        current() const { return total; }
    trie_layout layout() const;

  private:
    struct node {
        int32_t              token;
        int32_t              parent;
        int32_t              pos;
        bool                 output = false;
        std::vector<int32_t> children;
    };

    int32_t child(int32_t parent, int32_t token);
    int32_t follow(int32_t at, const int32_t * tokens, int32_t n, std::vector<int32_t> & path);
    void    needs_logits(int32_t at);
    void    add_path(const request_view & request, size_t continuation, int32_t out);

    size                                  total;
    std::vector<node>                     nodes;
    std::vector<int32_t>                  roots;
    std::unordered_map<uint64_t, int32_t> child_of; // (parent + 1) << 32 | token
    std::vector<std::vector<int32_t>>     paths;    // one a continuation or sequence: the nodes of its tokens
    std::vector<trie_target>              targets;  // whose rows are nodes
    std::vector<trie_read>                reads;    // whose rows are nodes
};

} // namespace plumb
