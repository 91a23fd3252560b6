// plumb.h: read, steer and score a language model on stock llama.cpp.
//
// Objects, and who owns what:
//
//   plumb_model    a GGUF file that was opened: weights, tokeniser, metadata. Freed after everything made from it.
//   plumb_hooks    what is done to the residual stream while a graph runs. It is the user data of llama.cpp's
//                  evaluation callback, so its address is fixed when a llama_context is made; the plan inside it is
//                  swapped between two decodes. It can serve a llama_context of Plumb's or one of the caller's own.
//   plumb_session  a llama_context laid out for scoring, with hooks of its own.
//   plumb_encoder  a llama_context of an encoder model, which embeds or classifies texts.
//
// Conventions:
//
//   * Layers are 0-based block indices. Layer L is the output of block L, the node that llama.cpp names "l_out-L".
//     PLUMB_LAYER_EMBEDDING (-1) is the token embeddings, before any scaling.
//   * Vectors are float32, row-major: a residual stream of R rows is R * n_embd floats, one row after the other.
//   * Log-probabilities are natural logarithms.
//   * Whatever can fail returns a plumb_status and takes a plumb_error as its last argument (NULL is allowed). The
//     message is one line for a person. No C++ exception leaves the library.
//   * Arrays handed in are read during the call only; arrays handed out are the caller's.
//   * A model may be used from several threads; hooks, sessions and encoders by one thread at a time. plumb_cancel_now may be
//     called from any thread.

#ifndef PLUMB_H
#define PLUMB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ggml_tensor;
struct llama_model;

#define PLUMB_LAYER_EMBEDDING (-1)

typedef enum plumb_status {
    PLUMB_OK             = 0,
    PLUMB_ERROR          = 1, // anything without a status of its own
    PLUMB_INVALID        = 2, // the call's arguments are wrong
    PLUMB_NOT_FOUND      = 3, // no such file
    PLUMB_FORMAT         = 4, // not a GGUF file, or a broken one
    PLUMB_UNSUPPORTED    = 5, // a valid model that this operation does not serve
    PLUMB_OUT_OF_MEMORY  = 6,
    PLUMB_CANCELLED      = 7,
    PLUMB_TOO_LONG       = 8,  // more tokens than the context holds
    PLUMB_HOOK_NOT_FIRED = 9,  // a planned hook's node did not appear exactly once, or not with the model's width
    PLUMB_NOT_FINITE     = 10, // the model's output holds a NaN or an infinity (a strength beyond what it bears)
} plumb_status;

typedef struct plumb_error {
    int32_t status;        // a plumb_status
    char    message[1020]; // one line, ends with a zero byte
} plumb_error;

// The version of Plumb, and of the llama.cpp that it was built on.
const char * plumb_version(void);
const char * plumb_llama_version(void);

// A request to stop. One object a call: handed to it, and set from another thread or a signal's. The call then returns
// PLUMB_CANCELLED within one graph.
typedef struct plumb_cancel plumb_cancel;

plumb_cancel * plumb_cancel_new(void);
void           plumb_cancel_now(plumb_cancel * cancel);
void           plumb_cancel_free(plumb_cancel * cancel); // after the call returned

// ---- model -----------------------------------------------------------------

typedef struct plumb_model plumb_model;

typedef struct plumb_model_params {
    const char *  devices;      // device names as in ggml, comma-separated, or "CPU"; NULL: every GPU and RPC server
    const char *  rpc_servers;  // host:port, comma-separated; NULL: none
    const float * tensor_split; // share of each device, n_tensor_split entries; NULL: by free memory
    int32_t       n_tensor_split;
    int32_t       n_gpu_layers; // layers kept on them, the head (one) and the last first; 0: the CPU; negative: all
    int32_t       n_threads;    // CPU threads; 0: one a core
    bool plain_weights; // keep weights in the file's layout, as gradients need; slower for some types in large models
} plumb_model_params;

plumb_model_params plumb_model_params_default(void);

// Opens a GGUF file (the first part of a split one). NULL on failure.
plumb_model * plumb_model_open(const char * path, const plumb_model_params * params, plumb_error * error);
void          plumb_model_free(plumb_model * model);

// A model that the caller loaded and frees, after the plumb_model. n_threads as in plumb_model_params. NULL on failure.
plumb_model * plumb_model_borrow(struct llama_model * llama, int32_t n_threads, plumb_error * error);

typedef struct plumb_model_info {
    char     architecture[64];
    char     description[128]; // llama.cpp's own, with the quantisation
    int32_t  n_layer;
    int32_t  n_embd;
    int32_t  n_vocab;
    int32_t  n_ctx_train;
    uint64_t n_params;
    uint64_t n_bytes; // of all tensors
    bool     has_vocab;
    bool     adds_bos;
    bool     is_encoder; // every token attends to all others: for a plumb_encoder, not a plumb_session
    bool     as_floats;  // on the CPU its sessions compute as those of its copy in F32 (see plumb_session)
    int32_t  n_threads;  // CPU threads that its sessions compute with
    char devices[256];   // what its blocks are kept on: "CPU", or devices' descriptions; "unknown" of a borrowed model
} plumb_model_info;

void plumb_model_get_info(const plumb_model * model, plumb_model_info * info);

// Metadata as text. Returns the value's length, or -1 if there is no such key; writes at most size bytes, with a zero.
int32_t plumb_model_meta(const plumb_model * model, const char * key, char * value, size_t size);

// The chat template inside the file, NULL if it has none. Owned by the model.
const char * plumb_model_chat_template(const plumb_model * model);

// The text of a conversation that holds one message of the user and opens the model's answer, by the file's chat template.
// Sets *n to its length in bytes; writes at most size.
plumb_status plumb_chat_prompt(const plumb_model * model, const char * user, char * text, size_t size, size_t * n,
                               plumb_error * error);

// Tokens of n_text bytes of UTF-8. add_special adds the BOS that the model asks for (no EOS; of an encoder its closing token
// too); parse_special reads the text of special tokens as such. Writes at most n_max tokens and sets *n to how many there
// are.
plumb_status plumb_tokenize(const plumb_model * model, const char * text, size_t n_text, bool add_special,
                            bool parse_special, int32_t * tokens, int32_t n_max, int32_t * n, plumb_error * error);

// The text of one token; returns its length in bytes, at most size are written, without a zero.
int32_t plumb_token_text(const plumb_model * model, int32_t token, char * text, size_t size);

// ---- hooks -----------------------------------------------------------------

typedef enum plumb_hook_op {
    PLUMB_HOOK_READ        = 0, // copy the rows out
    PLUMB_HOOK_ADD         = 1, // h + s * v
    PLUMB_HOOK_PROJECT_OUT = 2, // h - s * <h, u> u, where u = v / |v|
    PLUMB_HOOK_RESTORE     = 3, // h := v, one vector a row
    PLUMB_HOOK_NOISE = 4, // h + s * n, where n is standard Gaussian and a function of (seed, row, component) alone
} plumb_hook_op;

// One operator at one layer. Rows are those of the batch that is decoded, in the batch's order, also where llama.cpp
// splits it into several graphs; in the last block only the rows whose logits were asked for exist.
typedef struct plumb_hook {
    int32_t         layer; // PLUMB_LAYER_EMBEDDING or a block's index
    plumb_hook_op   op;
    const float *   vector;   // ADD, PROJECT_OUT: n_embd floats. RESTORE: n_rows * n_embd
    float           strength; // s, for every row that row_strength does not give
    const int32_t * rows;     // n_rows row indices, ascending; NULL: every row
    int32_t         n_rows;
    const float *   row_strength; // n_rows factors of strength; NULL: 1
    uint64_t        seed;         // NOISE; the i-th of `rows` gets the i-th vector of the seed, whatever the batch
    float *         out; // READ: n_rows * n_embd floats (every row: as many as the batch has), filled in decoding
} plumb_hook;

// The batch that a plan's row numbers are about.
typedef struct plumb_batch_rows {
    int32_t         n_rows;
    const int32_t * tokens; // llama_batch.token: what the graphs read is held against it, so that a llama_context that
                            // reorders its batch (one without kv_unified) is an error and not a wrong row
    const int8_t * logits;  // llama_batch.logits: which rows' logits are asked for
} plumb_batch_rows;

typedef struct plumb_hooks plumb_hooks;

plumb_hooks * plumb_hooks_new(const struct llama_model * model, plumb_error * error);
void          plumb_hooks_free(plumb_hooks * hooks); // after the llama_context

// For llama_context_params: .cb_eval = plumb_hooks_eval, .cb_eval_user_data = the plumb_hooks.
bool plumb_hooks_eval(struct ggml_tensor * tensor, bool ask, void * hooks);

// Sets the plan; hooks of one layer act in the order given. With batch, it is for one llama_decode of that batch. Without
// (NULL), it is for any number of decodes until another plan replaces it, and every hook must be ADD or PROJECT_OUT on every
// row. Vectors, rows and strengths are copied; `out` must stay valid until plumb_hooks_end. n_hooks 0: nothing is hooked.
// Refuses a NaN or an infinity, a zero vector to project out, a layer that the model does not have.
plumb_status plumb_hooks_begin(plumb_hooks * hooks, const plumb_hook * plan, size_t n_hooks,
                               const plumb_batch_rows * batch, plumb_error * error);

// After the decodes: whether every planned hook fired exactly once a graph, on the rows it named. The plan stays.
plumb_status plumb_hooks_end(plumb_hooks * hooks, plumb_error * error);

// ---- sessions and scoring ----------------------------------------------------

// Scores texts and reads residual streams. On the CPU, a model of up to 2^29 parameters in one file computes as its copy in F32
// does, to the last bit: weights of other types are multiplied as floats, of which the model keeps copies. In larger models,
// and wherever text is generated, ggml rounds what it multiplies by such weights, mostly to eight bits.
typedef struct plumb_session plumb_session;

typedef struct plumb_session_params {
    int32_t n_ctx;        // tokens that a batch may hold; 0: the model's, at most 4096
    int32_t n_batch_rows; // rows that one graph computes; 0: 512
    int32_t n_threads;    // 0: the model's
    bool    use_trie;     // compute what sequences share once, where the architecture is on the list
} plumb_session_params;

plumb_session_params plumb_session_params_default(void);

plumb_session * plumb_session_new(plumb_model * model, const plumb_session_params * params, plumb_error * error);
void            plumb_session_free(plumb_session * session);

// What the session was made with, after the defaults and the list of architectures.
void plumb_session_get_params(const plumb_session * session, plumb_session_params * params);

// Prompts and their continuations, laid end to end.
// Request r has a prompt of n_prompt[r] >= 1 tokens and n_continuations[r] >= 1 continuations. `tokens` holds request 0's
// prompt, its continuations in order, request 1's prompt, and so on; n_tokens holds every continuation's length (>= 1) in
// that order.
typedef struct plumb_requests {
    int32_t         n_requests;
    const int32_t * n_prompt;
    const int32_t * n_continuations;
    const int32_t * n_tokens;
    const int32_t * tokens;
} plumb_requests;

// How many of the requests, from the first on, share one batch. A function of their tokens and the session's parameters
// alone, so that a cut run continues with the same batches: hand in all that are left, or more than PLUMB_MAX_SEQUENCES.
// At least 1: a request too large for a batch is one of its own.
#define PLUMB_MAX_SEQUENCES 256
plumb_status plumb_session_batch(const plumb_session * session, const plumb_requests * requests, int32_t * n,
                                 plumb_error * error);

// An intervention on every row.
typedef struct plumb_steering {
    int32_t       layer;
    plumb_hook_op op; // ADD or PROJECT_OUT
    float         strength;
    const float * vector; // n_embd floats
} plumb_steering;

// Scores the requests, batch by batch, under the steering. logprobs gets, for every token of every continuation in order,
// its log-probability after what stands before it; statuses gets a plumb_status a request: PLUMB_OK, PLUMB_TOO_LONG or
// PLUMB_NOT_FINITE (its log-probabilities are then meaningless). n_computed, if not NULL, gets the rows computed.
plumb_status plumb_session_score(plumb_session * session, const plumb_requests * requests,
                                 const plumb_steering * steering, size_t n_steering, plumb_cancel * cancel,
                                 float * logprobs, int32_t * statuses, int64_t * n_computed, plumb_error * error);

typedef struct plumb_steering_set {
    const plumb_steering * steering;
    size_t                 n_steering; // 0: unsteered
} plumb_steering_set;

// Scores the requests under each of n_sets steerings, for less than one plumb_session_score a set: blocks up to the lowest
// layer that a set steers are computed once a batch. logprobs[set][token] and statuses[set][request] are as above;
// n_computed, if not NULL, gets the rows of which every block was computed.
plumb_status plumb_session_score_sets(plumb_session * session, const plumb_requests * requests,
                                      const plumb_steering_set * sets, size_t n_sets, plumb_cancel * cancel,
                                      float * logprobs, int32_t * statuses, int64_t * n_computed, plumb_error * error);

// Token sequences laid end to end, and the positions that each is read at.
typedef struct plumb_sequences {
    int32_t         n_sequences;
    const int32_t * n_tokens; // of each sequence, >= 1
    const int32_t * tokens;
    const int32_t * n_positions; // of each sequence, >= 1
    const int32_t * positions;   // ascending indices into their sequence
} plumb_sequences;

// Reads the residual stream after each of n_layers layers (PLUMB_LAYER_EMBEDDING counts as one) under the steering, batch by
// batch; blocks above the highest of the layers are not computed. out gets n_layers * n_embd floats a position, in order over
// all sequences: out[position][layer][component]. statuses gets a plumb_status a sequence, as in scoring: what is read of one
// that is not PLUMB_OK is meaningless.
plumb_status plumb_session_residuals(plumb_session * session, const plumb_sequences * sequences,
                                     const plumb_steering * steering, size_t n_steering, const int32_t * layers,
                                     int32_t n_layers, plumb_cancel * cancel, int32_t * statuses, float * out,
                                     plumb_error * error);

// Gaussian noise on the embeddings of some of a prompt's tokens: the i-th of them gets strength times the i-th vector of
// the seed.
typedef struct plumb_noise {
    const int32_t * positions; // n_positions indices into the prompt, ascending
    int32_t         n_positions;
    float           strength; // 0: no noise
    uint64_t        seed;
} plumb_noise;

// The residual stream of one prompt token after one layer, put in the place of what is computed there.
typedef struct plumb_patch {
    int32_t       layer;
    int32_t       position; // in the prompt; negative: nothing is put anywhere
    const float * vector;   // n_embd floats
} plumb_patch;

// Scores one request under the noise, once for each patch (causal tracing: corrupt, and restore one state). logprobs gets,
// for every patch, what plumb_session_score gives. PLUMB_TOO_LONG if a run does not fit one graph.
plumb_status plumb_session_patch(plumb_session * session, const plumb_requests * request, const plumb_noise * noise,
                                 const plumb_patch * patches, int32_t n_patches, plumb_cancel * cancel,
                                 float * logprobs, plumb_error * error);

typedef struct plumb_sampling {
    uint32_t seed;
    float    temperature; // 0 (and below 1e-6): always the likeliest token
    float    top_p;       // sample from the likeliest tokens that hold this probability together; 1: from all
} plumb_sampling;

// Continues a prompt under the steering, until the model ends its text or n_max tokens are there. out gets at most n_max
// tokens, without the one that ends the text; *n_out says how many. PLUMB_TOO_LONG if prompt and n_max exceed the context.
plumb_status plumb_session_generate(plumb_session * session, const int32_t * prompt, int32_t n_prompt,
                                    const plumb_steering * steering, size_t n_steering, const plumb_sampling * sampling,
                                    int32_t n_max, plumb_cancel * cancel, int32_t * out, int32_t * n_out,
                                    plumb_error * error);

// ---- encoders -------------------------------------------------------------------

// An encoder (BERT and its kin): every token attends to all others, and none is predicted.
typedef struct plumb_encoder plumb_encoder;

// Embeds tokens, or with classify gives the logits of the classifier that the file holds. PLUMB_UNSUPPORTED for a model that
// is no encoder, whose file names no labels to classify by, or whose classifier llama.cpp does not compute as it was trained.
// NULL on failure.
plumb_encoder * plumb_encoder_new(plumb_model * model, bool classify, plumb_error * error);
void            plumb_encoder_free(plumb_encoder * encoder);

// How many tokens a sequence may have: the model's, at most 2048.
int32_t plumb_encoder_n_ctx(const plumb_encoder * encoder);

// Components of an embedding, or labels.
int32_t plumb_encoder_width(const plumb_encoder * encoder);

// The labels of a model's classifier; none: 0, NULL. Owned by the model.
int32_t      plumb_model_n_labels(const plumb_model * model);
const char * plumb_model_label(const plumb_model * model, int32_t i);

// Runs one sequence, special tokens included. out gets the last block's output, after its norm, at every token: n_tokens *
// width floats; or one logit a label. PLUMB_TOO_LONG for more tokens than plumb_encoder_n_ctx.
plumb_status plumb_encoder_run(plumb_encoder * encoder, const int32_t * tokens, int32_t n_tokens, plumb_cancel * cancel,
                               float * out, plumb_error * error);

// ---- gradients -----------------------------------------------------------------

// Gradients of continuations' scores with respect to the residual stream, by replaying the model's own graph block by block
// and differentiating it. It has a context of its own. The model must have been opened with plain_weights.
typedef struct plumb_gradients plumb_gradients;

typedef struct plumb_gradients_params {
    int32_t n_ctx;  // tokens that a batch may hold; 0: the model's, at most 4096
    int32_t n_rows; // rows that are differentiated together, at most; 0: 128
} plumb_gradients_params;

// PLUMB_UNSUPPORTED where the architecture cannot be differentiated; the message names the operator and its node. NULL on
// failure.
plumb_gradients * plumb_gradients_new(plumb_model * model, const plumb_gradients_params * params, plumb_error * error);
void              plumb_gradients_free(plumb_gradients * gradients);

typedef struct plumb_gradients_job {
    const int32_t * layers; // n_layers block indices, ascending
    int32_t         n_layers;
    bool log_probability; // a continuation's score is its mean token log-probability; else the mean raw logit
    bool all_positions;   // the sum over all positions; else at the last prompt token
} plumb_gradients_job;

// out gets, for every continuation in order, the gradient of its score after each of the layers: n_layers * n_embd floats,
// out[continuation][layer][component]. statuses gets a plumb_status a request: PLUMB_OK, PLUMB_TOO_LONG (for the context,
// or with all_positions for one graph) or PLUMB_NOT_FINITE; its gradients are then meaningless.
plumb_status plumb_gradients_run(plumb_gradients * gradients, const plumb_requests * requests,
                                 const plumb_gradients_job * job, plumb_cancel * cancel, float * out,
                                 int32_t * statuses, plumb_error * error);

// ---- self-test -----------------------------------------------------------------

typedef struct plumb_self_test {
    bool  hooks_fire;       // every block's output and the embeddings, exactly once a graph, 2-D, of the model's width
    bool  trie_matches;     // scores by token trie equal scores alone, as far as any two batches of this model agree
    float trie_difference;  // the largest difference seen between trie and alone, in log-probability
    float graph_difference; // the same between one sequence in one graph and in graphs of four rows
    char  reason[256];      // why, where one of them is false
} plumb_self_test;

// A few tokens, a fraction of a second on a small model.
plumb_status plumb_model_self_test(plumb_model * model, plumb_self_test * result, plumb_error * error);

#ifdef __cplusplus
}
#endif

#endif // PLUMB_H
