#include "rules.h"

namespace plumb {

rule rule_of(const ggml_tensor * t) {
    switch (t->op) {
        case GGML_OP_ADD:
            return rule_add;
        case GGML_OP_SUB:
            return rule_sub;
        case GGML_OP_MUL:
            return rule_mul;
        case GGML_OP_DIV:
            return rule_div;
        case GGML_OP_SCALE:
            return rule_scale;
        case GGML_OP_SQR:
            return rule_sqr;
        case GGML_OP_SQRT:
            return rule_sqrt;
        case GGML_OP_LOG:
            return rule_log;
        case GGML_OP_SIN:
            return rule_sin;
        case GGML_OP_COS:
            return rule_cos;
        case GGML_OP_CLAMP:
            return rule_clamp;
        case GGML_OP_SUM:
            return rule_sum;
        case GGML_OP_SUM_ROWS:
            return rule_sum;
        case GGML_OP_MEAN:
            return rule_mean;
        case GGML_OP_DUP:
            return rule_copy;
        case GGML_OP_CPY:
            return rule_copy;
        case GGML_OP_CONT:
            return rule_copy;
        case GGML_OP_RESHAPE:
            return rule_copy;
        case GGML_OP_VIEW:
            return rule_view;
        case GGML_OP_PERMUTE:
            return rule_permute;
        case GGML_OP_TRANSPOSE:
            return rule_transpose;
        case GGML_OP_REPEAT:
            return rule_repeat;
        case GGML_OP_CONCAT:
            return rule_concat;
        case GGML_OP_PAD:
            return rule_pad;
        case GGML_OP_GET_ROWS:
            return rule_get_rows;
        case GGML_OP_SET_ROWS:
            return rule_set_rows;
        case GGML_OP_NORM:
            return rule_norm;
        case GGML_OP_RMS_NORM:
            return rule_rms_norm;
        case GGML_OP_L2_NORM:
            return rule_l2_norm;
        case GGML_OP_MUL_MAT:
            return rule_mul_mat;
        case GGML_OP_MUL_MAT_ID:
            return rule_mul_mat_id;
        case GGML_OP_ADD_ID:
            return rule_add_id;
        case GGML_OP_SOFT_MAX:
            return rule_soft_max;
        case GGML_OP_ROPE:
            return rule_rope;
        case GGML_OP_LEAKY_RELU:
            return rule_leaky_relu;
        case GGML_OP_UNARY:
            return has_unary_rule(ggml_get_unary_op(t)) ? rule_unary : nullptr;
        case GGML_OP_GLU:
            return has_glu_rule(ggml_get_glu_op(t)) ? rule_glu : nullptr;
        default:
            return nullptr;
    }
}

bool is_piecewise_constant(const ggml_tensor * t) {
    switch (t->op) {
        case GGML_OP_ARGMAX:
        case GGML_OP_ARGSORT:
        case GGML_OP_TOP_K:
        case GGML_OP_COUNT_EQUAL:
        case GGML_OP_FILL:
        case GGML_OP_ARANGE:
            return true;
        case GGML_OP_UNARY:
            switch (ggml_get_unary_op(t)) {
                case GGML_UNARY_OP_SGN:
                case GGML_UNARY_OP_STEP:
                case GGML_UNARY_OP_FLOOR:
                case GGML_UNARY_OP_CEIL:
                case GGML_UNARY_OP_ROUND:
                case GGML_UNARY_OP_TRUNC:
                    return true;
                default:
                    return false;
            }
        default:
            return t->type != GGML_TYPE_F32 && t->type != GGML_TYPE_F16 && t->type != GGML_TYPE_BF16;
    }
}

} // namespace plumb
