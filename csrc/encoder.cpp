// Encoder models: token embeddings in context, and classifier heads.

#include "architectures.h"
#include "cancel.h"
#include "during.h"
#include "error.h"
#include "finite.h"
#include "model.h"

#include "ggml/exact_gelu.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

using plumb::fail;

struct plumb_encoder {
    plumb_model *                                             model    = nullptr;
    bool                                                      classify = false;
    int32_t                                                   n_ctx    = 0;
    int64_t                                                   n_out = 0; // what the graph gives, a token or a sequence
    bool                                                      has_tanh = false; // as the dense layer of a classifier
    std::unique_ptr<llama_context, void (*)(llama_context *)> context{ nullptr, llama_free };
    const plumb_cancel *                                      cancel = nullptr; // of the call that runs
};

namespace {

int32_t n_labels(const plumb_model & model) {
    int32_t n = 0;
    while (llama_model_cls_label(model.llama, n)) {
        n++;
    }
    return n;
}

std::string meta(const plumb_model & model, const std::string & key) {
    char          value[64];
    const int32_t n = llama_model_meta_val_str(model.llama, key.c_str(), value, sizeof value);
    return n < 0 ? "" : value;
}

void check_model(const plumb_model & model, bool classify) {
    if (!plumb::is_encoder(model.architecture)) {
        fail(PLUMB_UNSUPPORTED, "the architecture %s is no encoder that Plumb serves", model.architecture.c_str());
    }
    if (!classify) {
        return;
    }
    if (n_labels(model) < 2) {
        fail(PLUMB_UNSUPPORTED,
             "the model is no classifier, as its file names no labels (%s.classifier.output_labels); convert one for "
             "sequence classification whose configuration names them (id2label)",
             model.architecture.c_str());
    }
    // WordPiece and one type of token; RoBERTa has one type, but other tokens
    if (meta(model, "tokenizer.ggml.token_type_count") == "1" && meta(model, "tokenizer.ggml.model") == "bert") {
        fail(PLUMB_UNSUPPORTED, "llama.cpp computes DistilBERT's classifier wrongly (a tanh where it has a ReLU); take "
                                "one of RoBERTa's or ModernBERT's kind");
    }
}

// A file can name labels and lack the classifier, or a part of it, and llama.cpp then gives other numbers without a word.
void check_graph(const plumb_encoder & encoder) {
    const int32_t width = plumb_encoder_width(&encoder);
    if (encoder.n_out != width) {
        fail(PLUMB_UNSUPPORTED, "the model's graph gives %lld numbers where %d are expected%s",
             (long long) encoder.n_out, width,
             encoder.classify ? ": the file lacks the classifier that its labels are of" : "");
    }
    if (encoder.classify && encoder.model->architecture == "bert" && !encoder.has_tanh) {
        fail(PLUMB_UNSUPPORTED,
             "the classifier lacks its dense layer, as llama.cpp's converter leaves out BERT's pooler; "
             "take one of RoBERTa's or ModernBERT's kind");
    }
}

// Watches the graph go by, and makes its GELU exact; nothing is read from it.
bool on_node(ggml_tensor * node, bool ask, void * user_data) {
    plumb_encoder & encoder = *(plumb_encoder *) user_data;
    if (ask) {
        plumb::compute_gelu_exactly(node);
        if (encoder.model->floats) {
            encoder.model->floats->use_in(node);
        }
    }
    if (ask && strcmp(node->name, "result_embd_pooled") == 0) {
        encoder.n_out = node->ne[0];
    }
    if (ask && node->op == GGML_OP_UNARY && ggml_get_unary_op(node) == GGML_UNARY_OP_TANH) {
        encoder.has_tanh = true;
    }
    return !ask;
}

void encode(plumb_encoder & encoder, const int32_t * tokens, int32_t n) {
    llama_batch batch = llama_batch_init(n, 0, 1);
    batch.n_tokens    = n;
    for (int32_t i = 0; i < n; i++) {
        batch.token[i]     = tokens[i];
        batch.pos[i]       = i;
        batch.n_seq_id[i]  = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i]    = true;
    }
    plumb::take_logged_error();
    const int32_t status = llama_encode(encoder.context.get(), batch);
    llama_batch_free(batch);
    if (status == 2 || plumb::is_cancelled(encoder.cancel)) {
        fail(PLUMB_CANCELLED, "cancelled");
    }
    if (status != 0) {
        const std::string why = plumb::take_logged_error();
        fail(PLUMB_ERROR, "llama.cpp cannot encode %d tokens (status %d)%s%s", n, status, why.empty() ? "" : ": ",
             why.c_str());
    }
    if (encoder.model->floats) {
        encoder.model->floats->check();
    }
}

} // namespace

int32_t plumb_model_n_labels(const plumb_model * model) {
    return n_labels(*model);
}

const char * plumb_model_label(const plumb_model * model, int32_t i) {
    return i < 0 ? nullptr : llama_model_cls_label(model->llama, i);
}

plumb_encoder * plumb_encoder_new(plumb_model * model, bool classify, plumb_error * error) {
    std::unique_ptr<plumb_encoder> encoder;
    const plumb_status             made = plumb::guarded(error, [&] {
        check_model(*model, classify);
        encoder           = std::make_unique<plumb_encoder>();
        encoder->model    = model;
        encoder->classify = classify;
        // attention of all tokens to all: its memory grows with the square of this
        encoder->n_ctx = std::min(llama_model_n_ctx_train(model->llama), 2048);

        llama_context_params cp = llama_context_default_params();
        cp.n_ctx                = encoder->n_ctx;
        cp.n_batch              = encoder->n_ctx;
        cp.n_ubatch             = encoder->n_ctx; // a sequence is one graph
        cp.n_seq_max            = 1;
        cp.n_threads            = model->n_threads;
        cp.n_threads_batch      = model->n_threads;
        cp.embeddings           = true;
        cp.pooling_type         = classify ? LLAMA_POOLING_TYPE_RANK : LLAMA_POOLING_TYPE_NONE;
        cp.flash_attn_type      = LLAMA_FLASH_ATTN_TYPE_DISABLED; // it would round keys and values to F16
        cp.no_perf              = true;
        cp.cb_eval              = on_node;
        cp.cb_eval_user_data    = encoder.get();
        cp.abort_callback_data  = encoder.get();
        cp.abort_callback = [](void * e) { return plumb::is_cancelled(((plumb_encoder *) e)->cancel); };

        encoder->context.reset(plumb::new_context(model->llama, cp));
        const int32_t any_token = 0;
        encode(*encoder, &any_token, 1);
        check_graph(*encoder);
    });
    return made == PLUMB_OK ? encoder.release() : nullptr;
}

void plumb_encoder_free(plumb_encoder * encoder) {
    delete encoder;
}

int32_t plumb_encoder_n_ctx(const plumb_encoder * encoder) {
    return encoder->n_ctx;
}

int32_t plumb_encoder_width(const plumb_encoder * encoder) {
    return encoder->classify ? n_labels(*encoder->model) : llama_model_n_embd_out(encoder->model->llama);
}

plumb_status plumb_encoder_run(plumb_encoder * encoder, const int32_t * tokens, int32_t n_tokens, plumb_cancel * cancel,
                               float * out, plumb_error * error) {
    const plumb::during<const plumb_cancel *> cancelled_by(encoder->cancel, cancel);
    return plumb::guarded(error, [&] {
        const int32_t n_vocab = llama_vocab_n_tokens(encoder->model->vocab);
        if (n_tokens < 1 || std::any_of(tokens, tokens + n_tokens, [&](int32_t t) { return t < 0 || t >= n_vocab; })) {
            fail(PLUMB_INVALID, "no tokens, or a token that is not in the vocabulary");
        }
        if (n_tokens > encoder->n_ctx) {
            fail(PLUMB_TOO_LONG, "the text is %d tokens; the encoder's context holds %d", n_tokens, encoder->n_ctx);
        }
        encode(*encoder, tokens, n_tokens);
        const int32_t width = plumb_encoder_width(encoder);
        const int32_t rows  = encoder->classify ? 1 : n_tokens;
        const float * from  = encoder->classify ? llama_get_embeddings_seq(encoder->context.get(), 0)
                                                : llama_get_embeddings(encoder->context.get());
        if (!from) {
            fail(PLUMB_ERROR, "llama.cpp gave no embeddings");
        }
        std::copy(from, from + (size_t) rows * width, out);
        if (!plumb::all_finite(out, (size_t) rows * width)) {
            fail(PLUMB_NOT_FINITE, "the model's output is not a number");
        }
    });
}
