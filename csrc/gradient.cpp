#include "gradient.h"

#include "architectures.h"
#include "attention.h"
#include "error.h"
#include "finite.h"
#include "hooks.h"
#include "model.h"

#include "ggml-cpu.h"

#include <algorithm>
#include <cmath>

namespace plumb {

namespace {

std::string architecture_of(const llama_model * model) {
    char name[64] = "";
    llama_model_meta_val_str(model, "general.architecture", name, sizeof name);
    return name;
}

} // namespace

gradient_engine::gradient_engine(llama_model * model, const gradient_params & p)
    : model(model), params(p), architecture(architecture_of(model)), n_layer(llama_model_n_layer(model)),
      n_embd(llama_model_n_embd(model)), n_vocab(llama_vocab_n_tokens(llama_model_get_vocab(model))),
      recorded(block_outputs(n_layer)), threads(nullptr, ggml_threadpool_free), context(nullptr, llama_free), all(1),
      transposed(p.transposed_size, p.n_threads) {
    if (is_encoder(architecture) || llama_model_has_encoder(model) || llama_model_is_diffusion(model)) {
        fail(PLUMB_UNSUPPORTED, "the architecture %s is not a causal language model: no gradients",
             architecture.c_str());
    }
    params.n_ctx  = p.n_ctx > 0 ? p.n_ctx : std::min(llama_model_n_ctx_train(model), 4096);
    params.n_rows = std::min(p.n_rows > 0 ? p.n_rows : 128, params.n_ctx);
    n_sequences   = params.share ? std::min(params.n_rows, PLUMB_MAX_SEQUENCES) : 1;

    ggml_threadpool_params tp = ggml_threadpool_params_default(params.n_threads);
    threads.reset(ggml_threadpool_new(&tp));
    if (!threads) {
        fail(PLUMB_OUT_OF_MEMORY, "no threads for gradients");
    }
    all = devices(params.n_threads, threads.get());

    llama_context_params cp = llama_context_default_params();
    cp.n_ctx                = params.n_ctx;
    cp.n_batch              = std::max(params.n_rows, std::min(512, params.n_ctx));
    cp.n_ubatch             = cp.n_batch; // one llama_decode is one graph
    cp.n_seq_max            = n_sequences;
    cp.n_outputs_max        = params.n_rows;
    cp.n_threads            = params.n_threads;
    cp.n_threads_batch      = params.n_threads;
    cp.kv_unified           = true;
    cp.swa_full             = true;
    cp.no_perf              = true;
    cp.op_offload           = false; // a weight that travels for one operator has no place that a replay could read
    cp.type_k               = GGML_TYPE_F32;
    cp.type_v               = GGML_TYPE_F32;
    cp.flash_attn_type      = fused_attention_is_exact() ? LLAMA_FLASH_ATTN_TYPE_AUTO : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    cp.cb_eval_user_data    = this;
    cp.cb_eval = [](ggml_tensor * node, bool ask, void * e) { return ((gradient_engine *) e)->on_node(node, ask); };
    cp.abort_callback_data = this;
    cp.abort_callback      = [](void * e) { return is_cancelled(((gradient_engine *) e)->cancel); };

    context.reset(new_context(model, cp, " for gradients"));
    params.n_ctx = std::min<int32_t>(params.n_ctx, llama_n_ctx(context.get()));
    llama_attach_threadpool(context.get(), threads.get(), threads.get());
}

gradient_engine::~gradient_engine() {
    if (context) {
        llama_detach_threadpool(context.get());
    }
}

// ---- laying out a batch ------------------------------------------------------------------------------------------------

// Of the last prompt token (or all of the prompt's) and the continuation's, without the last: nothing is read after it.
int32_t gradient_engine::n_rows_of(const item & i, const gradient_job & job) const {
    const int32_t n_prompt = job.all_positions ? i.request->n_prompt : 1;
    return n_prompt + i.request->continuations[i.continuation].second - 1;
}

// Whether the batch has room for continuations [begin, end) of the request.
bool gradient_engine::fits(const request_view & request, size_t begin, size_t end, const gradient_job & job) const {
    int32_t rows = 0;
    for (size_t c = begin; c < end; c++) {
        rows += n_rows_of({ &request, (int32_t) c, 0, 0 }, job);
    }
    int32_t new_prefix = 0;
    if (!job.all_positions) {
        int32_t row = -1, shared = 0;
        for (; shared < request.n_prompt - 1; shared++) {
            auto it = prefix_row.find((uint64_t) (row + 1) << 32 | (uint32_t) request.prompt[shared]);
            if (it == prefix_row.end()) {
                break;
            }
            row = it->second;
        }
        new_prefix = request.n_prompt - 1 - shared;
    }
    // One sequence may be as long as a graph, but for rows of logits: all positions of a long prompt.
    const bool room = (int32_t) traced_batch.size() + rows <= params.n_rows ||
                      (items.empty() && end - begin == 1 && rows <= (int32_t) llama_n_batch(context.get()) &&
                       request.continuations[begin].second <= params.n_rows);
    return room && items.size() + (end - begin) <= (size_t) n_sequences &&
           (int32_t) (prefix.size() + traced_batch.size()) + new_prefix + rows <= params.n_ctx;
}

void gradient_engine::add(item i, const gradient_job & job) {
    const int32_t   sequence = (int32_t) items.size();
    const int32_t   n_prompt = i.request->n_prompt;
    const int32_t * prompt   = i.request->prompt;
    const int32_t   begin    = job.all_positions ? 0 : n_prompt - 1;

    int32_t at = -1;
    for (int32_t pos = 0; pos < begin; pos++) {
        const uint64_t key   = (uint64_t) (at + 1) << 32 | (uint32_t) prompt[pos];
        const auto     place = prefix_row.emplace(key, (int32_t) prefix.size());
        if (place.second) {
            prefix.push_back({ prompt[pos], pos, {}, false });
        }
        at = place.first->second;
        prefix[at].sequences.push_back(sequence);
    }
    i.first_row = (int32_t) traced_batch.size();
    i.n_rows    = n_rows_of(i, job);
    for (int32_t r = 0; r < i.n_rows; r++) {
        const int32_t pos = begin + r;
        const int32_t token =
            pos < n_prompt ? prompt[pos] : i.request->continuations[i.continuation].first[pos - n_prompt];
        traced_batch.push_back({ token, pos, { sequence }, pos >= n_prompt - 1 });
    }
    items.push_back(i);
}

void gradient_engine::run(const std::vector<request_view> & requests, const gradient_job & job) {
    cancel = job.cancel;
    for (int32_t l = 0; l < job.n_layers; l++) {
        if (job.layers[l] < (l ? job.layers[l - 1] + 1 : 0) || job.layers[l] >= n_layer) {
            fail(PLUMB_INVALID, "gradients are at ascending layers from 0 to %d, not at %d", n_layer - 1,
                 job.layers[l]);
        }
    }
    if (job.n_layers < 1) {
        fail(PLUMB_INVALID, "no layer to take gradients at");
    }
    auto flush = [&] {
        if (!items.empty()) {
            run_batch(job);
        }
        items.clear();
        prefix.clear();
        traced_batch.clear();
        prefix_row.clear();
    };
    items.clear();
    flush();
    for (size_t r = 0; r < requests.size(); r++) {
        const size_t n      = requests[r].continuations.size();
        int32_t      status = PLUMB_OK;
        if (!fits(requests[r], 0, n, job)) {
            flush();
        }
        for (size_t c = 0; c < n; c++) {
            if (!fits(requests[r], c, c + 1, job)) {
                flush(); // a request too large for one batch
            }
            if (fits(requests[r], c, c + 1, job)) {
                add({ &requests[r], (int32_t) c, 0, 0 }, job);
            } else {
                status = PLUMB_TOO_LONG;
            }
        }
        if (job.statuses) {
            job.statuses[r] = status;
        }
    }
    flush();
    const size_t n = (size_t) job.n_layers * n_embd;
    for (size_t r = 0; r < requests.size() && job.statuses; r++) {
        const request_view & q = requests[r];
        if (job.statuses[r] == PLUMB_OK &&
            !all_finite(job.out + q.first_continuation * n, q.continuations.size() * n)) {
            job.statuses[r] = PLUMB_NOT_FINITE;
        }
    }
}

// ---- running it --------------------------------------------------------------------------------------------------------

// What comes after the last block is replayed from there, and nobody reads the logits: it is recorded and not computed.
bool gradient_engine::on_node(ggml_tensor * node, bool ask) {
    if (ask) {
        keep_attention_in_f32(node);
        if (params.floats) {
            params.floats->use_in(node);
        }
    }
    if (ask && recorded.in_last_block()) {
        node->flags &= ~GGML_TENSOR_FLAG_COMPUTE;
    }
    return recorded.on_node(node, ask);
}

void gradient_engine::decode(const std::vector<row> & rows) {
    const size_t                n_batch = llama_n_batch(context.get());
    std::vector<llama_token>    token;
    std::vector<llama_pos>      pos;
    std::vector<int32_t>        n_seq;
    std::vector<llama_seq_id *> seq;
    std::vector<int8_t>         logits;
    for (size_t begin = 0; begin < rows.size(); begin += n_batch) {
        const size_t n = std::min(n_batch, rows.size() - begin);
        token.clear(), pos.clear(), n_seq.clear(), seq.clear(), logits.clear();
        for (size_t i = begin; i < begin + n; i++) {
            token.push_back(rows[i].token);
            pos.push_back(rows[i].pos);
            n_seq.push_back((int32_t) rows[i].sequences.size());
            seq.push_back(const_cast<llama_seq_id *>(rows[i].sequences.data())); // llama.cpp only reads them
            logits.push_back(rows[i].logits);
        }
        llama_batch batch = { (int32_t) n, token.data(), nullptr, pos.data(), n_seq.data(), seq.data(), logits.data() };
        const int   rc    = llama_decode(context.get(), batch);
        if (is_cancelled(cancel)) {
            held.clear();
            llama_memory_clear(llama_get_memory(context.get()), false); // after an abort it is in no defined state
            fail(PLUMB_CANCELLED, "cancelled");
        }
        if (rc != 0) {
            const std::string why = take_logged_error();
            fail(PLUMB_ERROR, "llama.cpp cannot decode %d rows for gradients: %s", (int) n,
                 why.empty() ? "no reason given" : why.c_str());
        }
        if (params.floats) {
            params.floats->check();
        }
    }
}

// Decodes and records the traced batch, a second time if blocks read values that the first recording did not keep.
void gradient_engine::record(int32_t lowest) {
    for (int32_t attempt = 0;; attempt++) {
        recorded.begin(lowest + 1);
        decode(traced_batch);
        recorded.finish();
        const std::vector<const traced *> missing = missing_values(recorded, lowest);
        if (missing.empty()) {
            return;
        }
        if (attempt > 0) {
            throw graph_error(missing[0]->name + ": its value was not recorded");
        }
        for (const traced * t : missing) {
            recorded.capture(*t);
        }
        for (size_t s = 0; s < items.size(); s++) {
            const llama_pos first = traced_batch[items[s].first_row].pos;
            if (!llama_memory_seq_rm(llama_get_memory(context.get()), (llama_seq_id) s, first, -1)) {
                held.clear();
                throw graph_error("its memory cannot go back, and " + missing[0]->name + " is read across blocks");
            }
        }
    }
}

// One sequence at a time, the next prompt mostly starts as the last one did: only what differs is computed.
void gradient_engine::decode_prefix() {
    llama_memory_t   memory = llama_get_memory(context.get());
    std::vector<row> rows   = prefix;
    if (n_sequences == 1) {
        std::vector<int32_t> tokens;
        for (const row & r : prefix) {
            tokens.push_back(r.token);
        }
        const size_t n    = std::min(held.size(), tokens.size());
        const size_t same = std::mismatch(held.begin(), held.begin() + n, tokens.begin()).first - held.begin();
        held              = std::move(tokens);
        if (same > 0 && llama_memory_seq_rm(memory, 0, (llama_pos) same, -1)) {
            rows.erase(rows.begin(), rows.begin() + same);
        } else {
            llama_memory_clear(memory, false);
        }
    } else {
        llama_memory_clear(memory, false);
    }
    recorded.begin((int32_t) recorded.n_blocks() + 1); // no value of the prompts is kept
    decode(rows);
    prompt_rows += (int64_t) rows.size();
}

void gradient_engine::run_batch(const gradient_job & job) {
    decode_prefix();
    traced_rows += (int64_t) traced_batch.size();

    output_loss loss;
    loss.log_softmax = job.log_probability;
    for (const item & i : items) {
        const auto & continuation = i.request->continuations[i.continuation];
        for (int32_t k = 0; k < continuation.second; k++) {
            loss.columns.push_back(continuation.first[k]);
            loss.weights.push_back(1.0f / (float) continuation.second);
        }
    }
    try {
        const int32_t lowest = job.layers[0];
        record(lowest);
        int32_t at = job.n_layers - 1;
        backward(recorded, loss, lowest, all, transposed, [&](int32_t layer, const std::vector<float> & gradient) {
            if (is_cancelled(cancel)) {
                fail(PLUMB_CANCELLED, "cancelled");
            }
            if (at >= 0 && layer == job.layers[at]) {
                write(layer, job.n_layers, at--, gradient, job);
            }
        });
    } catch (const graph_error & e) {
        fail(PLUMB_UNSUPPORTED, "no gradients on the architecture %s: %s", architecture.c_str(), e.what());
    }
}

// Takes each continuation's rows out of a layer's gradient.
void gradient_engine::write(int32_t layer, int32_t n_layers, int32_t at, const std::vector<float> & gradient,
                            const gradient_job & job) {
    const traced & node = recorded.boundary(layer);
    const int32_t  n_outputs =
        (int32_t) std::count_if(traced_batch.begin(), traced_batch.end(), [](const row & r) { return r.logits; });
    const bool outputs_only = node.ne[1] == n_outputs; // the last block may keep the rows of outputs alone
    if (node.ne[0] != n_embd || (!outputs_only && node.ne[1] != (int64_t) traced_batch.size()) ||
        node.ne[2] * node.ne[3] != 1 || node.type != GGML_TYPE_F32) {
        throw graph_error(node.name + ": not one row of the model's width a token");
    }
    int32_t row = 0; // of the node
    for (const item & i : items) {
        float * to = job.out + ((size_t) (i.request->first_continuation + i.continuation) * n_layers + at) * n_embd;
        std::fill(to, to + n_embd, 0.0f);
        for (int32_t r = i.first_row; r < i.first_row + i.n_rows; r++) {
            if (outputs_only && !traced_batch[r].logits) {
                continue; // it does not reach any output
            }
            const float * from = gradient.data() + (size_t) row++ * n_embd;
            if (job.all_positions || r == i.first_row) {
                std::transform(from, from + n_embd, to, to, std::plus<float>());
            }
        }
    }
}

} // namespace plumb
