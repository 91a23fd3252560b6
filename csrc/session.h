// A llama_context laid out for scoring: many short sequences that share what they can.

#pragma once

#include "cancel.h"
#include "during.h"
#include "hooks.h"
#include "model.h"
#include "trie.h"

#include "ggml/trace.h"

#include <functional>
#include <memory>
#include <vector>

struct plumb_session {
    plumb_model *                model = nullptr;
    plumb_session_params         params;
    int32_t                      n_outputs_max = 0; // rows of logits that one graph may give
    std::unique_ptr<plumb_hooks> hooks;
    std::unique_ptr<llama_context, void (*)(llama_context *)>     context{ nullptr, llama_free };
    std::unique_ptr<ggml_threadpool, void (*)(ggml_threadpool *)> threads{ nullptr, nullptr };
    const plumb_cancel *                                          cancel = nullptr; // of the call that runs

    bool generating = false; // a row at a time

    plumb::trace * recording     = nullptr; // of the graph that runs, where its blocks are to be replayed
    bool           can_replay    = true;    // until a replay was refused
    bool           hooks_want_it = false;   // the node that the scheduler asked about last

    ~plumb_session();
};

namespace plumb {

// A steering, and where the scores under it go.
struct steered_scores {
    const plumb_steering * steering;
    size_t                 n_steering;
    float *                logprobs;
    int32_t *              statuses;
};

// Scores requests under each of the steerings.
struct score_job {
    plumb_session &                   session;
    const std::vector<request_view> & requests;
    std::vector<steered_scores>       steerings;
    int64_t                           n_computed = 0;

    void run();

  private:
    void score(const trie & t);
    void score(const trie_layout & layout, const steered_scores & to);
    bool score_by_replay(const trie_layout & layout);
    void decode(const trie_layout & layout, int32_t begin, int32_t end, const steered_scores & to);
};

// Reads residual streams of sequences under a steering.
struct read_job {
    plumb_session &                    session;
    const std::vector<sequence_view> & sequences;
    const plumb_steering *             steering;
    size_t                             n_steering;
    const int32_t *                    layers;
    int32_t                            n_layers;
    int32_t *                          statuses;
    float *                            out; // [position][layer][component]

    void run();

  private:
    void    read(const trie_layout & layout);
    int32_t highest_layer() const;
};

// log p(token | row) for the targets of rows [begin, end) of the layout, by as many threads as the model computes with.
// logits holds, for each of the rows whose logits are needed, in order, where they are.
void log_probabilities(const plumb_session & session, const trie_layout & layout, int32_t begin, int32_t end,
                       const std::vector<const float *> & logits, float * out);

// The same of the whole layout, of a tensor that holds the logits of those rows.
void log_probabilities(const plumb_session & session, const trie_layout & layout, const ggml_tensor * logits,
                       float * out);

// Decodes rows [begin, end) of the layout as one graph under the plan, whose rows count from begin, and puts the
// log-probabilities of its targets where they belong. Without logprobs nothing above the plan's highest layer is computed.
void decode_rows(plumb_session & session, const trie_layout & layout, int32_t begin, int32_t end,
                 const std::vector<plumb_hook> & plan, float * logprobs);

// The steering as a plan on every row.
std::vector<plumb_hook> plan_of(const plumb_steering * steering, size_t n_steering);

// Whether a trie's rows can all be in one graph.
bool fits_one_graph(const plumb_session & session, const trie::size & size);

// Where the graph ends that begins with a row of the layout.
int32_t end_of_graph(const plumb_session & session, const trie_layout & layout, int32_t begin);

// How many of n_left requests or sequences, which add puts into a trie, fit one batch; at least 1.
int32_t count_that_share_a_batch(const plumb_session & session, size_t n_left,
                                 const std::function<void(trie &, size_t)> & add);
int32_t count_that_share_a_batch(const plumb_session & session, const std::vector<request_view> & requests,
                                 size_t from);

} // namespace plumb
