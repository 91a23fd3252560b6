#include "error.h"
#include "trie.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

using namespace plumb;

namespace {

struct requests_data {
    std::vector<int32_t> n_prompt, n_continuations, n_tokens, tokens;

    void add(const std::vector<int32_t> & prompt, const std::vector<std::vector<int32_t>> & continuations) {
        n_prompt.push_back((int32_t) prompt.size());
        n_continuations.push_back((int32_t) continuations.size());
        tokens.insert(tokens.end(), prompt.begin(), prompt.end());
        for (const auto & c : continuations) {
            n_tokens.push_back((int32_t) c.size());
            tokens.insert(tokens.end(), c.begin(), c.end());
        }
    }

    plumb_requests get() const {
        return { (int32_t) n_prompt.size(), n_prompt.data(), n_continuations.data(), n_tokens.data(), tokens.data() };
    }
};

// Everything a layout must be for llama.cpp and for the scores, whatever the requests.
void check(const trie_layout & l, const std::vector<request_view> & views) {
    // each sequence's rows, in order, spell its prompt and continuation
    std::map<int32_t, std::vector<int32_t>> rows_of;
    for (int32_t row = 0; row < l.n_rows(); row++) {
        ASSERT_FALSE(l.sequences[row].empty());
        for (int32_t s : l.sequences[row]) {
            ASSERT_EQ(l.pos[row], (int32_t) rows_of[s].size()) << "positions of a sequence follow each other";
            rows_of[s].push_back(row);
        }
    }
    std::map<int32_t, trie_target> target_of; // by out
    for (const trie_target & t : l.targets) {
        ASSERT_TRUE(l.logits[t.row]);
        ASSERT_TRUE(target_of.emplace(t.out, t).second) << "one target a token";
    }
    int32_t s = 0, out = 0;
    for (const request_view & v : views) {
        for (const auto & [tokens, n] : v.continuations) {
            std::vector<int32_t> whole(v.prompt, v.prompt + v.n_prompt);
            whole.insert(whole.end(), tokens, tokens + n - 1);
            ASSERT_EQ(rows_of[s].size(), whole.size());
            for (size_t i = 0; i < whole.size(); i++) {
                ASSERT_EQ(l.token[rows_of[s][i]], whole[i]);
            }
            for (int32_t i = 0; i < n; i++, out++) {
                ASSERT_EQ(target_of[out].token, tokens[i]);
                ASSERT_EQ(target_of[out].row, rows_of[s][v.n_prompt - 1 + i]);
            }
            s++;
        }
    }
    ASSERT_EQ((int32_t) target_of.size(), out);
}

} // namespace

TEST(trie, computes_what_is_shared_once) {
    requests_data d;
    d.add({ 1, 2, 3 }, { { 4, 5 }, { 4, 6 }, { 7 } });
    d.add({ 1, 2, 8 }, { { 4 } });
    const auto views = view_requests(d.get(), 10);
    trie       t;
    for (const auto & v : views) {
        t.add(v);
    }
    const trie_layout l = t.layout();
    EXPECT_EQ(l.n_rows(), 5); // 1 2 3 4 and 8: the last token of a continuation predicts nothing
    EXPECT_EQ(t.current().n_rows, 5);
    EXPECT_EQ(t.current().n_outputs, 3);
    EXPECT_EQ(t.current().n_sequences, 4);
    check(l, views);
}

TEST(trie, lays_out_any_requests) {
    std::mt19937 random(7);
    auto         some = [&](int max) { return 1 + (int) (random() % max); };
    for (int round = 0; round < 200; round++) {
        requests_data d;
        for (int r = some(6); r > 0; r--) {
            // few token values, so that prefixes are shared in every way, one continuation within another too
            std::vector<int32_t> prompt(some(5));
            for (int32_t & token : prompt) {
                token = (int32_t) (random() % 2);
            }
            std::vector<std::vector<int32_t>> continuations(some(4));
            for (auto & c : continuations) {
                c.resize(some(4));
                for (int32_t & token : c) {
                    token = (int32_t) (random() % 3);
                }
            }
            d.add(prompt, continuations);
        }
        const auto views = view_requests(d.get(), 3);
        trie       t;
        for (const auto & v : views) {
            t.add(v);
        }
        const trie_layout l = t.layout();
        check(l, views);
        EXPECT_EQ(t.current().n_rows, l.n_rows());
        EXPECT_EQ(t.current().n_outputs, std::count(l.logits.begin(), l.logits.end(), 1));
    }
}

TEST(trie, lays_out_sequences_with_what_is_read) {
    const std::vector<int32_t> n_tokens = { 4, 3, 2 }, tokens = { 1, 2, 3, 4, 1, 2, 5, 1, 2 };
    const std::vector<int32_t> n_positions = { 2, 1, 2 }, positions = { 1, 3, 2, 0, 1 };
    const plumb_sequences      sequences = { 3, n_tokens.data(), tokens.data(), n_positions.data(), positions.data() };
    for (bool as_outputs : { false, true }) {
        trie t;
        for (const sequence_view & v : view_sequences(sequences, 10)) {
            t.add(v, as_outputs);
        }
        const trie_layout l = t.layout();
        EXPECT_EQ(l.token, (std::vector<int32_t>{ 1, 2, 3, 4, 5 }));
        EXPECT_EQ(l.sequences[1], (std::vector<int32_t>{ 0, 1, 2 }));
        EXPECT_EQ(l.logits, as_outputs ? (std::vector<int8_t>{ 1, 1, 0, 1, 1 }) : std::vector<int8_t>(5));
        EXPECT_EQ(t.current().n_outputs, as_outputs ? 4 : 0);
        std::vector<int32_t> row_of(5, -1);
        for (const trie_read & r : l.reads) {
            row_of[r.out] = r.row;
        }
        EXPECT_EQ(row_of, (std::vector<int32_t>{ 1, 3, 4, 0, 1 }));
    }
}

TEST(view_requests, refuses_what_cannot_be_scored) {
    auto refuses = [](const std::vector<int32_t> & prompt, const std::vector<std::vector<int32_t>> & continuations) {
        requests_data d;
        d.add(prompt, continuations);
        try {
            view_requests(d.get(), 10);
            return false;
        } catch (const failure & f) {
            return f.status == PLUMB_INVALID;
        }
    };
    EXPECT_FALSE(refuses({ 1 }, { { 2 } }));
    EXPECT_TRUE(refuses({}, { { 2 } }));
    EXPECT_TRUE(refuses({ 1 }, {}));
    EXPECT_TRUE(refuses({ 1 }, { { 2 }, {} }));
    EXPECT_TRUE(refuses({ 10 }, { { 2 } }));
    EXPECT_TRUE(refuses({ 1 }, { { -1 } }));
}
