#include "trie.h"

#include "error.h"

namespace plumb {

std::vector<request_view> view_requests(const plumb_requests & requests, int32_t n_vocab) {
    std::vector<request_view> views;
    views.reserve(requests.n_requests);
    const int32_t * token        = requests.tokens;
    int32_t         continuation = 0;
    int32_t         out          = 0;

    auto take = [&](int32_t n, const char * what, int32_t r) {
        if (n < 1) {
            fail(PLUMB_INVALID, "%s of request %d has no tokens", what, r);
        }
        for (int32_t i = 0; i < n; i++) {
            if (token[i] < 0 || token[i] >= n_vocab) {
                fail(PLUMB_INVALID, "%s of request %d holds the token %d; the vocabulary has %d", what, r, token[i],
                     n_vocab);
            }
        }
        const int32_t * start = token;
        token += n;
        return start;
    };
    for (int32_t r = 0; r < requests.n_requests; r++) {
        request_view v;
        v.n_prompt           = requests.n_prompt[r];
        v.prompt             = take(v.n_prompt, "the prompt", r);
        v.first_continuation = continuation;
        v.first_token        = out;
        if (requests.n_continuations[r] < 1) {
            fail(PLUMB_INVALID, "request %d has no continuation", r);
        }
        for (int32_t c = 0; c < requests.n_continuations[r]; c++, continuation++) {
            const int32_t n = requests.n_tokens[continuation];
            v.continuations.emplace_back(take(n, "a continuation", r), n);
            out += n;
        }
        views.push_back(std::move(v));
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

void trie::add_path(const request_view & request, size_t continuation, int32_t out, bool first) {
    const auto [tokens, n] = request.continuations[continuation];
    path    p              = { {}, {}, request.n_prompt, first };
    int32_t at             = -1;
    for (int32_t i = 0; i < request.n_prompt; i++) {
        at = child(at, request.prompt[i]);
        p.nodes.push_back(at);
    }
    for (int32_t i = 0; i < n; i++) {
        if (!nodes[at].output) {
            nodes[at].output = true;
            total.n_outputs++;
        }
        p.targets.emplace_back(tokens[i], out + i);
        if (i + 1 < n || with_ends) {
            at = child(at, tokens[i]);
            p.nodes.push_back(at);
        }
    }
    if (with_ends && !nodes[at].output) {
        nodes[at].output = true; // in the last block only output rows exist
        total.n_outputs++;
    }
    paths.push_back(std::move(p));
    total.n_sequences++;
}

void trie::add(const request_view & request) {
    int32_t out = request.first_token;
    for (size_t c = 0; c < request.continuations.size(); c++) {
        add_path(request, c, out, c == 0);
        out += request.continuations[c].second;
    }
}

void trie::add(const request_view & request, size_t continuation) {
    int32_t out = request.first_token;
    for (size_t c = 0; c < continuation; c++) {
        out += request.continuations[c].second;
    }
    add_path(request, continuation, out, true);
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
        const path & p = paths[s];
        for (int32_t at : p.nodes) {
            l.sequences[row_of[at]].push_back((int32_t) s);
        }
        for (size_t k = 0; k < p.targets.size(); k++) {
            l.targets.push_back({ row_of[p.nodes[p.n_prompt - 1 + k]], p.targets[k].first, p.targets[k].second });
        }
        if (p.first_of_request) {
            l.prompt_end.push_back(row_of[p.nodes[p.n_prompt - 1]]);
        }
        l.continuation_end.push_back(with_ends ? row_of[p.nodes.back()] : -1);
    }
    return l;
}

} // namespace plumb
