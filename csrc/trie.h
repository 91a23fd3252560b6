// Token tries: how requests are laid into a batch so that what they share is computed once.

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

// A log-probability to compute: that of token, after row, goes to logprobs[out].
struct trie_target {
    int32_t row;
    int32_t token;
    int32_t out;
};

// The rows of a batch. A row stands before every row that continues it.
struct trie_layout {
    std::vector<int32_t>              token;
    std::vector<int32_t>              pos;
    std::vector<std::vector<int32_t>> sequences; // that pass through the row
    std::vector<int8_t>               logits;    // whether the row's are needed
    std::vector<trie_target>          targets;
    std::vector<int32_t>              prompt_end;       // row, one a request
    std::vector<int32_t>              continuation_end; // row, one a continuation; -1 where it is not computed

    int32_t n_rows() const { return (int32_t) token.size(); }
};

class trie {
  public:
    // with_ends: the last token of every continuation is computed too. Scores do not need it, residuals there do.
    explicit trie(bool with_ends) : with_ends(with_ends) {}

    struct size {
        int32_t n_rows      = 0;
        int32_t n_outputs   = 0; // rows whose logits are needed, at most
        int32_t n_sequences = 0;
    };

    // Adds a request, or one continuation of it alone.
    void add(const request_view & request);
    void add(const request_view & request, size_t continuation);

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

    struct path {
        std::vector<int32_t>                     nodes;   // one a computed token
        std::vector<std::pair<int32_t, int32_t>> targets; // token, out; the k-th follows nodes[n_prompt - 1 + k]
        int32_t                                  n_prompt;
        bool                                     first_of_request;
    };

    int32_t child(int32_t parent, int32_t token);
    void    add_path(const request_view & request, size_t continuation, int32_t out, bool first);

    bool                                  with_ends;
    size                                  total;
    std::vector<node>                     nodes;
    std::vector<int32_t>                  roots;
    std::unordered_map<uint64_t, int32_t> child_of; // (parent + 1) << 32 | token
    std::vector<path>                     paths;    // one a continuation
};

} // namespace plumb
