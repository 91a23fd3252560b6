// plumb.h's gradients, over the gradient engine.

#include "architectures.h"
#include "error.h"
#include "gradient.h"
#include "model.h"

#include <memory>

struct plumb_gradients {
    plumb_model *                           model;
    std::unique_ptr<plumb::gradient_engine> engine;
};

plumb_gradients * plumb_gradients_new(plumb_model * model, const plumb_gradients_params * params, plumb_error * error) {
    std::unique_ptr<plumb_gradients> gradients;
    const plumb_status               status = plumb::guarded(error, [&] {
        plumb::gradient_params p;
        p.n_ctx           = params ? params->n_ctx : 0;
        p.n_rows          = params ? params->n_rows : 0;
        p.n_threads       = model->n_threads;
        p.floats          = model->floats.get();
        p.share           = plumb::trie_scoring_was_checked(model->architecture);
        gradients         = std::make_unique<plumb_gradients>();
        gradients->model  = model;
        gradients->engine = std::make_unique<plumb::gradient_engine>(model->llama, p);
    });
    return status == PLUMB_OK ? gradients.release() : nullptr;
}

void plumb_gradients_free(plumb_gradients * gradients) {
    delete gradients;
}

plumb_status plumb_gradients_run(plumb_gradients * gradients, const plumb_requests * requests,
                                 const plumb_gradients_job * job, plumb_cancel * cancel, float * out,
                                 int32_t * statuses, plumb_error * error) {
    return plumb::guarded(error, [&] {
        const int32_t n_layer = llama_model_n_layer(gradients->model->llama);
        for (int32_t i = 0; i < job->n_layers; i++) {
            if (job->layers[i] < 0 || job->layers[i] >= n_layer || (i && job->layers[i] <= job->layers[i - 1])) {
                plumb::fail(PLUMB_INVALID, "the layers of a gradient are ascending block indices below %d", n_layer);
            }
        }
        if (job->n_layers < 1) {
            plumb::fail(PLUMB_INVALID, "a gradient needs a layer");
        }
        const auto views = plumb::view_requests(*requests, llama_vocab_n_tokens(gradients->model->vocab));
        gradients->engine->run(
            views, { job->layers, job->n_layers, job->log_probability, job->all_positions, cancel, out, statuses });
    });
}
