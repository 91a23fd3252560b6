// Gradients of what a model says about continuations, with respect to its residual stream.
//
// The loss of a continuation is the mean over its tokens of the token's raw logit, or of its log-probability, after what
// stands before it. Prompts are decoded first, what they share once; then every continuation is a sequence of its own, from
// the last prompt token to its last but one, and the rows of many continuations are one graph, which is recorded and
// differentiated (ggml/backward.h). So continuations of one prompt stay apart: each has its own copy of the last prompt
// token, and one backward pass serves all of them. Keys and values of the prompt before its last token are constants.

#pragma once

#include "cancel.h"
#include "trie.h"

#include "ggml/backward.h"
#include "ggml/float_weights.h"
#include "ggml/trace.h"

#include "llama.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace plumb {

struct gradient_params {
    int32_t n_ctx           = 0; // tokens that a batch may hold; 0: the model's, at most 4096
    int32_t n_rows          = 0; // rows that are differentiated together, at most; 0: 128. Or one sequence of up to 512
    int32_t n_threads       = 1;
    bool    share           = true; // several sequences a batch: where token tries are right for the architecture
    size_t  transposed_size = (size_t) 1 << 30; // bytes of transposed weights to keep from one batch to the next
    float_weights * floats  = nullptr;          // the model's, if it has them; outlives the engine
};

struct gradient_job {
    const int32_t *      layers; // 0-based block indices, ascending
    int32_t              n_layers;
    bool                 log_probability; // instead of the raw logit
    bool                 all_positions;   // summed over all positions; else at the last prompt token
    const plumb_cancel * cancel;          // may be null
    float *              out;             // [continuation][layer][n_embd]
    int32_t *            statuses;        // a plumb_status a request; may be null
};

class gradient_engine {
  public:
    // Makes a context of its own on the model, which must have been opened without repacked weights
    // (use_extra_bufts = false). Throws failure.
    gradient_engine(llama_model * model, const gradient_params & params);
    ~gradient_engine();

    // Fills job.out and job.statuses: PLUMB_OK, PLUMB_TOO_LONG (more tokens than the context holds, or more rows to
    // differentiate than one graph has) or PLUMB_NOT_FINITE. Throws failure: PLUMB_UNSUPPORTED where the architecture cannot be
    // differentiated, PLUMB_CANCELLED, PLUMB_OUT_OF_MEMORY.
    void run(const std::vector<request_view> & requests, const gradient_job & job);

    // Rows computed since the engine was made: of prompts, and differentiated.
    int64_t n_prompt_rows() const { return prompt_rows; }
    int64_t n_traced_rows() const { return traced_rows; }

  private:
    // A continuation in the batch that is being laid out.
    struct item {
        const request_view * request;
        int32_t              continuation; // of the request
        int32_t              first_row;    // of the traced batch
        int32_t              n_rows;
    };

    struct row {
        int32_t              token;
        int32_t              pos;
        std::vector<int32_t> sequences;
        bool                 logits;
    };

    bool    on_node(ggml_tensor * node, bool ask);
    int32_t n_rows_of(const item & i, const gradient_job & job) const;
    bool    fits(const request_view & request, size_t begin, size_t end, const gradient_job & job) const;
    void    add(item i, const gradient_job & job);
    void    decode_prefix();
    void    decode(const std::vector<row> & rows);
    void    record(int32_t lowest);
    void    run_batch(const gradient_job & job);
    void    write(int32_t layer, int32_t n_layers, int32_t at, const std::vector<float> & gradient,
                  const gradient_job & job);

    llama_model *   model;
    gradient_params params;
    std::string     architecture;
    int32_t         n_layer, n_embd, n_vocab, n_sequences;

    trace                                                         recorded;
    std::unique_ptr<ggml_threadpool, void (*)(ggml_threadpool *)> threads;
    std::unique_ptr<llama_context, void (*)(llama_context *)>     context;
    devices                                                       all;
    transposed_weights                                            transposed;
    const plumb_cancel *                                          cancel = nullptr; // of the run

    std::vector<item>                     items;  // the batch
    std::vector<row>                      prefix; // its prompts' rows, but for the last of each
    std::vector<row>                      traced_batch;
    std::unordered_map<uint64_t, int32_t> prefix_row; // (parent row + 1) << 32 | token
    std::vector<int32_t>                  held; // where a batch is one sequence: the prompt in the context's memory
    int64_t                               prompt_rows = 0, traced_rows = 0;
};

} // namespace plumb
