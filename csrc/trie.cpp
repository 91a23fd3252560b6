#include "trie.h"

#include "error.h"

namespace plumb {

namespace {

// Takes n tokens off a flat array, after a look at them.
const int32_t * take(const int32_t *& token, int32_t n, int32_t n_vocab, const char * what, int32_t r) {
    if (n < 1) {
        fail(PLUMB_INVALID, "%s %d has no tokens", what, r);
    }
    for (int32_t i = 0; i < n; i++) {
        if (token[i] < 0 || token[i] >= n_vocab) {
            fail(PLUMB_INVALID, "%s %d holds the token %d; the vocabulary has %d", what, r, token[i], n_vocab);
        }
    }
    const int32_t * start = token;
    token += n;
    return start;
}

} // namespace

std::vector<request_view> view_requests(const plumb_requests & requests, int32_t n_vocab) {
    std::vector<request_view> views;
    views.reserve(requests.n_requests);
    const int32_t * token        = requests.tokens;
    int32_t         continuation = 0;
    int32_t         out          = 0;
    for (int32_t r = 0; r < requests.n_requests; r++) {
        request_view v;
        v.n_prompt           = requests.n_prompt[r];
        v.prompt             = take(token, v.n_prompt, n_vocab, "the prompt of request", r);
        v.first_continuation = continuation;
        v.first_token        = out;
        if (requests.n_continuations[r] < 1) {
            fail(PLUMB_INVALID, "request %d has no continuation", r);
        }
        for (int32_t c = 0; c < requests.n_continuations[r]; c++, continuation++) {
            const int32_t n = requests.n_tokens[continuation];
            v.continuations.emplace_back(take(token, n, n_vocab, "a continuation of request", r), n);
            out += n;
        }
        views.push_back(std::move(v));
    }
    return views;
}

std::vector<sequence_view> view_sequences(const plumb_sequences & sequences, int32_t n_vocab) {
    std::vector<sequence_view> views;
    views.reserve(sequences.n_sequences);
    const int32_t * token    = sequences.tokens;
    int32_t         position = 0;
    for (int32_t s = 0; s < sequences.n_sequences; s++) {
        sequence_view v;
        v.n_tokens       = sequences.n_tokens[s];
        v.tokens         = take(token, v.n_tokens, n_vocab, "sequence", s);
        v.positions      = sequences.positions + position;
        v.n_positions    = sequences.n_positions[s];
        v.first_position = position;
        if (v.n_positions < 1) {
            fail(PLUMB_INVALID, "sequence %d is read nowhere", s);
        }
        for (int32_t i = 0; i < v.n_positions; i++) {
            if (v.positions[i] < (i ? v.positions[i - 1] + 1 : 0) || v.positions[i] >= v.n_tokens) {
                fail(PLUMB_INVALID, "the positions of sequence %d are not ascending indices below %d", s, v.n_tokens);
            }
        }
        position += v.n_positions;
        views.push_back(v);
    }
    return views;
}

int32_t trie::child(int32_t parent, int32_t token) {
    auto [it, is_new] = child_of.try_emplace((uint64_t) (parent + 1) << 32 | (uint32_t) token, (int32_t) nodes.size());
    if (is_new) {
        nodes.push_back({ token, parent, parent < 0 ? 0 : nodes[parent].pos + 1, false, {} });
        (parent < 0 ? roots : nodes[parent].children).push_back(it->second);
        total.n_rows++;
    }
    return it->second;
}

// Goes on from a node by tokens, whose nodes it adds to the path, and returns the last one.
int32_t trie::follow(int32_t at, const int32_t * tokens, int32_t n, std::vector<int32_t> & path) {
    for (int32_t i = 0; i < n; i++) {
        at = child(at, tokens[i]);
        path.push_back(at);
    }
    return at;
}

void trie::needs_logits(int32_t at) {
    if (!nodes[at].output) {
        nodes[at].output = true;
        total.n_outputs++;
    }
}

void trie::add_path(const request_view & request, size_t continuation, int32_t out) {
    const auto [tokens, n]      = request.continuations[continuation];
    std::vector<int32_t> & path = paths.emplace_back();
    follow(follow(-1, request.prompt, request.n_prompt, path), tokens, n - 1, path);
    for (int32_t i = 0; i < n; i++) {
        const int32_t at = path[request.n_prompt - 1 + i];
        needs_logits(at);
        targets.push_back({ at, tokens[i], out + i });
    }
    total.n_sequences++;
}

void trie::add(const request_view & request) {
    int32_t out = request.first_token;
    for (size_t c = 0; c < request.continuations.size(); c++) {
        add_path(request, c, out);
        out += request.continuations[c].second;
    }
}

void trie::add(const request_view & request, size_t continuation) {
    int32_t out = request.first_token;
    for (size_t c = 0; c < continuation; c++) {
        out += request.continuations[c].second;
    }
    add_path(request, continuation, out);
}

void trie::add(const sequence_view & sequence, bool as_outputs) {
    std::vector<int32_t> & path = paths.emplace_back();
    follow(-1, sequence.tokens, sequence.n_tokens, path);
    for (int32_t i = 0; i < sequence.n_positions; i++) {
        const int32_t read = path[sequence.positions[i]];
        reads.push_back({ read, sequence.first_position + i });
        if (as_outputs) {
            needs_logits(read);
        }
    }
    total.n_sequences++;
}

trie_layout trie::layout() const {
    trie_layout  l;
    const size_t n = nodes.size();
    l.token.reserve(n);
    l.pos.reserve(n);
    l.logits.reserve(n);
    std::vector<int32_t> row_of(n, -1);

    // depth first, children in the order in which they came: a function of the requests alone
    std::vector<int32_t> stack(roots.rbegin(), roots.rend());
    while (!stack.empty()) {
        const int32_t at = stack.back();
        stack.pop_back();
        const node & nd = nodes[at];
        row_of[at]      = (int32_t) l.token.size();
        l.token.push_back(nd.token);
        l.pos.push_back(nd.pos);
        l.logits.push_back(nd.output);
        stack.insert(stack.end(), nd.children.rbegin(), nd.children.rend());
    }
    l.sequences.resize(n);
    for (size_t s = 0; s < paths.size(); s++) {
        for (int32_t at : paths[s]) {
            l.sequences[row_of[at]].push_back((int32_t) s);
        }
    }
    for (const trie_target & t : targets) {
        l.targets.push_back({ row_of[t.row], t.token, t.out });
    }
    for (const trie_read & r : reads) {
        l.reads.push_back({ row_of[r.row], r.out });
    }
    return l;
}

} // namespace plumb
