// Scoring: batches of token tries through llama_decode, and log-softmax of the rows that matter.

#include "error.h"
#include "finite.h"
#include "logsumexp.h"
#include "session.h"

#include <algorithm>
#include <cmath>
#include <thread>

namespace plumb {

namespace {

// Tokens from the first of the prompt to the last that is computed.
int32_t longest_path(const request_view & request) {
    int32_t longest = 0;
    for (const auto & [tokens, n] : request.continuations) {
        (void) tokens;
        longest = std::max(longest, request.n_prompt + n - 1);
    }
    return longest;
}

void mark_not_finite(const std::vector<request_view> & requests, size_t from, int32_t n, const steered_scores & to) {
    for (size_t r = from; r < from + n; r++) {
        if (to.statuses[r] != PLUMB_OK) {
            continue;
        }
        int32_t n_tokens = 0;
        for (const auto & [tokens, count] : requests[r].continuations) {
            (void) tokens;
            n_tokens += count;
        }
        const float * p = to.logprobs + requests[r].first_token;
        if (!all_finite(p, n_tokens)) {
            to.statuses[r] = PLUMB_NOT_FINITE;
        }
    }
}

} // namespace

bool fits_one_graph(const plumb_session & session, const trie::size & size) {
    return size.n_rows <= session.params.n_batch_rows && size.n_outputs <= session.n_outputs_max &&
           size.n_sequences <= (int32_t) llama_n_seq_max(session.context.get());
}

int32_t end_of_graph(const plumb_session & session, const trie_layout & layout, int32_t begin) {
    int32_t end       = begin;
    int32_t n_outputs = 0;
    while (end < layout.n_rows() && end - begin < session.params.n_batch_rows &&
           n_outputs + layout.logits[end] <= session.n_outputs_max) {
        n_outputs += layout.logits[end++];
    }
    return end;
}

int32_t count_that_share_a_batch(const plumb_session & session, size_t n_left,
                                 const std::function<void(trie &, size_t)> & add) {
    if (!session.params.use_trie) {
        return 1;
    }
    trie    batch;
    int32_t n = 0;
    while ((size_t) n < n_left) {
        add(batch, n);
        if (!fits_one_graph(session, batch.current())) {
            break;
        }
        n++;
    }
    return std::max(n, 1);
}

int32_t count_that_share_a_batch(const plumb_session & session, const std::vector<request_view> & requests,
                                 size_t from) {
    return count_that_share_a_batch(session, requests.size() - from,
                                    [&](trie & batch, size_t i) { batch.add(requests[from + i]); });
}

std::vector<plumb_hook> plan_of(const plumb_steering * steering, size_t n_steering) {
    std::vector<plumb_hook> plan(n_steering);
    for (size_t i = 0; i < n_steering; i++) {
        plan[i].layer    = steering[i].layer;
        plan[i].op       = steering[i].op;
        plan[i].strength = steering[i].strength;
        plan[i].vector   = steering[i].vector;
    }
    return plan;
}

void score_job::run() {
    for (size_t from = 0; from < requests.size();) {
        const int32_t n = count_that_share_a_batch(session, requests, from);
        trie          batch;
        for (int32_t r = (int32_t) from; r < (int32_t) from + n; r++) {
            const bool too_long = longest_path(requests[r]) > session.params.n_ctx;
            for (const steered_scores & to : steerings) {
                to.statuses[r] = too_long ? PLUMB_TOO_LONG : PLUMB_OK;
            }
            if (!too_long) {
                batch.add(requests[r]);
            }
        }
        const trie::size size  = batch.current();
        const bool       whole = session.params.use_trie && size.n_rows <= session.params.n_ctx &&
                           size.n_sequences <= (int32_t) llama_n_seq_max(session.context.get());
        if (size.n_rows > 0 && whole) {
            score(batch);
        } else if (size.n_rows > 0) {
            // one request whose continuations cannot be in the cache together, or a model without tries
            for (size_t c = 0; c < requests[from].continuations.size(); c++) {
                trie alone;
                alone.add(requests[from], c);
                score(alone);
            }
        }
        for (const steered_scores & to : steerings) {
            mark_not_finite(requests, from, n, to);
        }
        from += n;
    }
}

void score_job::score(const trie & t) {
    const trie_layout layout = t.layout();
    if (steerings.size() > 1 && score_by_replay(layout)) {
        return;
    }
    for (const steered_scores & to : steerings) {
        score(layout, to);
    }
}

// Decodes the trie, in graphs of at most n_batch_rows rows, and puts its log-probabilities where they belong.
void score_job::score(const trie_layout & layout, const steered_scores & to) {
    llama_memory_clear(llama_get_memory(session.context.get()), false);
    for (int32_t begin = 0; begin < layout.n_rows();) {
        const int32_t end = end_of_graph(session, layout, begin);
        decode(layout, begin, end, to);
        begin = end;
    }
}

namespace {

struct owned_batch {
    llama_batch batch;

    owned_batch(const trie_layout & layout, int32_t begin, int32_t end) {
        size_t n_seq = 1;
        for (int32_t row = begin; row < end; row++) {
            n_seq = std::max(n_seq, layout.sequences[row].size());
        }
        batch          = llama_batch_init(end - begin, 0, (int32_t) n_seq);
        batch.n_tokens = end - begin;
        for (int32_t i = 0; i < batch.n_tokens; i++) {
            const auto & sequences = layout.sequences[begin + i];
            batch.token[i]         = layout.token[begin + i];
            batch.pos[i]           = layout.pos[begin + i];
            batch.n_seq_id[i]      = (int32_t) sequences.size();
            batch.logits[i]        = layout.logits[begin + i];
            std::copy(sequences.begin(), sequences.end(), batch.seq_id[i]);
        }
    }

    ~owned_batch() { llama_batch_free(batch); }
};

} // namespace

void log_probabilities(const plumb_session & session, const trie_layout & layout, int32_t begin, int32_t end,
                       const std::vector<const float *> & logits, float * out) {
    const size_t        n_vocab = llama_vocab_n_tokens(session.model->vocab);
    std::vector<double> normaliser(logits.size());
    auto                work = [&](size_t first, size_t step) {
        for (size_t k = first; k < logits.size(); k += step) {
            normaliser[k] = log_sum_exp(logits[k], n_vocab);
        }
    };
    std::vector<std::thread> helpers;
    const size_t             n_threads = std::min<size_t>(session.params.n_threads, logits.size());
    for (size_t i = 1; i < n_threads; i++) {
        helpers.emplace_back(work, i, n_threads);
    }
    work(0, std::max<size_t>(n_threads, 1));
    for (std::thread & helper : helpers) {
        helper.join();
    }
    std::vector<int32_t> output_of(end - begin, -1);
    for (int32_t i = 0, k = 0; i < end - begin; i++) {
        if (layout.logits[begin + i]) {
            output_of[i] = k++;
        }
    }
    for (const trie_target & t : layout.targets) {
        if (t.row >= begin && t.row < end) {
            const int32_t k = output_of[t.row - begin];
            out[t.out]      = (float) (logits[k][t.token] - normaliser[k]);
        }
    }
}

void log_probabilities(const plumb_session & session, const trie_layout & layout, const ggml_tensor * logits,
                       float * out) {
    // a batch's logits are tens of megabytes: they are read where they are if that is host memory
    std::vector<float> copy;
    const float *      values = (const float *) logits->data;
    if (!ggml_backend_buffer_is_host(logits->buffer)) {
        copy.resize(ggml_nelements(logits));
        ggml_backend_tensor_get(logits, copy.data(), 0, ggml_nbytes(logits));
        values = copy.data();
    }
    std::vector<const float *> rows;
    for (int64_t k = 0; k < logits->ne[1]; k++) {
        rows.push_back(values + k * logits->ne[0]);
    }
    log_probabilities(session, layout, 0, layout.n_rows(), rows, out);
}

void score_job::decode(const trie_layout & layout, int32_t begin, int32_t end, const steered_scores & to) {
    decode_rows(session, layout, begin, end, plan_of(to.steering, to.n_steering), to.logprobs);
    n_computed += end - begin;
}

void decode_rows(plumb_session & session, const trie_layout & layout, int32_t begin, int32_t end,
                 const std::vector<plumb_hook> & plan, float * logprobs) {
    if (is_cancelled(session.cancel)) {
        fail(PLUMB_CANCELLED, "cancelled");
    }
    owned_batch            owned(layout, begin, end);
    const plumb_batch_rows rows = { owned.batch.n_tokens, owned.batch.token, owned.batch.logits };
    plumb_error            error;
    if (plumb_hooks_begin(session.hooks.get(), plan.data(), plan.size(), &rows, &error) != PLUMB_OK) {
        throw failure((plumb_status) error.status, error.message);
    }
    if (!logprobs) {
        session.hooks->stop_after_plan();
    }
    const int32_t status = llama_decode(session.context.get(), owned.batch);
    if (status == 2 || is_cancelled(session.cancel)) {
        llama_memory_clear(llama_get_memory(session.context.get()), true);
        fail(PLUMB_CANCELLED, "cancelled");
    }
    if (status != 0) {
        const std::string why = take_logged_error();
        fail(PLUMB_ERROR, "llama.cpp cannot decode a batch of %d rows (status %d)%s%s", end - begin, status,
             why.empty() ? "" : ": ", why.c_str());
    }
    if (plumb_hooks_end(session.hooks.get(), &error) != PLUMB_OK) {
        throw failure((plumb_status) error.status, error.message);
    }
    if (session.model->floats) {
        session.model->floats->check();
    }
    if (!logprobs) {
        return;
    }
    std::vector<const float *> logits;
    for (int32_t i = 0; i < end - begin; i++) {
        if (layout.logits[begin + i]) {
            logits.push_back(llama_get_logits_ith(session.context.get(), i));
        }
    }
    log_probabilities(session, layout, begin, end, logits, logprobs);
}

} // namespace plumb
