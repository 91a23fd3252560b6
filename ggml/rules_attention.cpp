#include "rules.h"

namespace plumb {

// With y = softmax(s x + mask): dx = s y (dy - <y, dy>). The mask, its ALiBi slopes (hence no max_bias here) and attention
// sinks, which only make the sum of y less than one, leave that as it is.
void rule_soft_max(differentiation & d, ggml_tensor * t, ggml_tensor * g) {
    if (d.needs(t->src[1]) || d.needs(t->src[2])) {
        d.fail(t, "a mask or sinks that the graph computes");
    }
    // The CPU's operator goes wrong where its result gets y's memory, which an allocator may give it; not an output's.
    ggml_set_output(t);
    d.add(t->src[0], ggml_soft_max_ext_back(d.ctx, d.contiguous(g), t, param(t, 0), 0.0f));
}

// A rotation goes back by the opposite one: the same node but for its operator, whatever the mode.
void rule_rope(differentiation & d, ggml_tensor * t, ggml_tensor * g) {
    if (d.needs(t->src[2])) {
        d.fail(t, "frequencies that the graph computes");
    }
    g                  = d.contiguous(g);
    ggml_tensor * back = ggml_dup_tensor(d.ctx, g);
    back->op           = GGML_OP_ROPE_BACK;
    back->src[0]       = g;
    back->src[1]       = t->src[1];
    back->src[2]       = t->src[2];
    memcpy(back->op_params, t->op_params, sizeof back->op_params);
    d.add(t->src[0], back);
}

} // namespace plumb
