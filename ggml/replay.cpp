#include "replay.h"

#include "exact_gelu.h"
#include "fused_attention.h"

#include <algorithm>
#include <cstring>

namespace plumb {

namespace {

// Calls visit(reader, source, what the source shows) for everything that block b reads from outside: leaves, and what was
// computed below (the input included).
template <typename F> void for_each_source(const trace & recorded, int32_t b, F && visit) {
    const int32_t begin = recorded.block_begin(b);
    for (int32_t i = begin; i < recorded.block_end(b); i++) {
        const traced & t = *recorded.nodes()[i];
        for (const traced * s : t.src) {
            if (!s || s == &t) {
                continue;
            }
            // A view made below is made again here; what counts is what it shows.
            const traced * c = s->kind == traced::node && s->index < begin ? computed_of(s) : s;
            if (c->kind != traced::node || c->index < begin) {
                visit(t, *s, *c);
            }
            if (s->is_view() && s->written && s->written->index < begin) {
                visit(t, *s, *s->written);
            }
        }
    }
}

device & device_of(const trace & recorded, int32_t b, devices & all) {
    device * where = nullptr;
    for_each_source(recorded, b, [&](const traced &, const traced &, const traced & c) {
        if (c.original && (!where || where == &all.cpu())) {
            where = &all.holding(c.original);
        }
    });
    if (!where) {
        throw graph_error(recorded.boundary(b).name + ": nothing tells which device computes it");
    }
    for_each_source(recorded, b, [&](const traced & t, const traced &, const traced & c) {
        if (c.original && !where->reads(c.original)) {
            throw graph_error(t.name + ": its source " + c.name + " is not on the device " +
                              ggml_backend_name(where->backend.get()) + " with the rest of its block");
        }
    });
    return *where;
}

} // namespace

std::vector<const traced *> frontier(const trace & recorded, int32_t b) {
    std::vector<const traced *> found;
    for_each_source(recorded, b, [&](const traced &, const traced &, const traced & c) {
        const bool is_input = b > 0 && &c == &recorded.boundary(b - 1);
        if (c.kind == traced::node && !is_input && std::find(found.begin(), found.end(), &c) == found.end()) {
            found.push_back(&c);
        }
    });
    return found;
}

replay::replay(const trace & recorded, int32_t b, devices & all, size_t room_a_node, const std::vector<int32_t> * picks)
    : recorded(recorded), b(b), forwards_only(room_a_node == 0) {
    const int32_t begin = recorded.block_begin(b), end = recorded.block_end(b);
    const size_t  n = (size_t) (end - begin);
    work            = std::make_unique<workspace>(device_of(recorded, b, all), n * (room_a_node + 4) + 64);

    if (b > 0) {
        const traced & below = recorded.boundary(b - 1);
        residual             = work->input(below.type, below.ne);
        ggml_set_name(residual, below.name.c_str());
        clones[&below] = residual;
    }
    if (picks) {
        find_narrow(*picks);
    }
    for (int32_t i = begin; i < end; i++) {
        clone(*recorded.nodes()[i]);
    }
}

void replay::prepare() {
    work->prepare();
    for (ggml_tensor * node : order) {
        compute_gelu_exactly(node);
    }
}

ggml_tensor * replay::of(const traced & t) const {
    auto it = clones.find(&t);
    return it == clones.end() ? nullptr : it->second;
}

ggml_tensor * replay::leaf(const traced * s) {
    if (s->original) {
        return s->original;
    }
    if (s->value.empty()) {
        throw graph_error(s->name + ": its value was not recorded");
    }
    ggml_tensor * c = work->constant(s->type, s->ne, s->value);
    ggml_set_name(c, s->name.c_str());
    return clones[s] = c;
}

// The state's memory as it is after `written` (null: as it was before the graph ran).
ggml_tensor * replay::state_after(const traced * state, const traced * written) {
    if (!written) {
        return state->original;
    }
    if (written->op != GGML_OP_SET_ROWS || written->view_offs != 0 ||
        ggml_nelements(state->original) != written->ne[0] * written->ne[1] * written->ne[2] * written->ne[3]) {
        throw graph_error(written->name + ": the operator " + ggml_op_name(written->op) + " writes part of " +
                          state->name);
    }
    if (ggml_tensor * c = of(*written)) {
        return c;
    }
    // Written below this block: another tensor on the same memory, so that a gradient can be asked for.
    work->require(1);
    return clones[written] = ggml_view_tensor(work->context(), state->original);
}

// Any view of a cache, whatever it went through: the same window on the cache's memory.
ggml_tensor * replay::view_of_state(const traced & t) {
    ggml_tensor * base = state_after(t.view_src, t.written);
    ggml_tensor * c =
        ggml_view_4d(work->context(), base, t.ne[0], t.ne[1], t.ne[2], t.ne[3], t.nb[1], t.nb[2], t.nb[3], t.view_offs);
    memcpy(c->nb, t.nb, sizeof t.nb); // a transposed view has no unit stride in its first dimension
    return c;
}

ggml_tensor * replay::source(const traced * s) {
    if (ggml_tensor * c = of(*s)) {
        return c;
    }
    return s->kind == traced::node && s->is_view() ? clone(*s) : leaf(s);
}

ggml_tensor * replay::clone_view(const traced & t) {
    ggml_context * ctx = work->context();
    if (t.view_src->kind == traced::state) {
        return view_of_state(t);
    }
    ggml_tensor * of = source(t.src[0]);
    ggml_tensor * c  = nullptr;
    switch (t.op) {
        case GGML_OP_RESHAPE:
            c = ggml_reshape_4d(ctx, of, t.ne[0], t.ne[1], t.ne[2], t.ne[3]);
            break;
        case GGML_OP_PERMUTE:
            c = ggml_permute(ctx, of, t.op_params[0], t.op_params[1], t.op_params[2], t.op_params[3]);
            break;
        case GGML_OP_TRANSPOSE:
            c = ggml_transpose(ctx, of);
            break;
        default:
            size_t offset;
            memcpy(&offset, t.op_params, sizeof offset);
            c = ggml_view_4d(ctx, of, t.ne[0], t.ne[1], t.ne[2], t.ne[3], t.nb[1], t.nb[2], t.nb[3], offset);
    }
    if (memcmp(c->nb, t.nb, sizeof t.nb) != 0) {
        throw graph_error(t.name + ": a view of memory that the replay lays out otherwise");
    }
    return c;
}

ggml_tensor * replay::clone_operator(const traced & t) {
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        const traced * s = t.src[i];
        // What the running program read there is gone: a recurrent model's state, which each graph replaces.
        if (s && s != &t && memory_of(s)->kind == traced::state && !s->written && recorded.last_writer(memory_of(s)) &&
            !(t.op == GGML_OP_SET_ROWS && i == 2)) {
            throw graph_error(t.name + ": the operator " + ggml_op_name(t.op) + " reads the state " +
                              memory_of(s)->name + ", which the graph replaces");
        }
    }
    if (t.op == GGML_OP_SET_ROWS) {
        ggml_tensor * into = source(t.src[2]);
        return ggml_set_rows(work->context(), into, source(t.src[0]), source(t.src[1]));
    }
    auto list = [&](ggml_tensor * part) { return listed(part, t.name + " part"); };
    if (!forwards_only && reads_gelu_table(t.op, t.op_params) && t.type == GGML_TYPE_F32 && work->where().is_cpu()) {
        work->require(9);
        ggml_tensor * linear = t.src[1] ? source(t.src[1]) : nullptr;
        return gelu_of_exact_operators(work->context(), t.op, t.op_params, source(t.src[0]), linear, list);
    }
    if (!forwards_only && t.op == GGML_OP_FLASH_ATTN_EXT) {
        work->require(12);
        auto optional = [&](int i) { return t.src[i] ? source(t.src[i]) : nullptr; };
        return attention_of_operators(work->context(), t.op_params, source(t.src[0]), source(t.src[1]),
                                      source(t.src[2]), optional(3), optional(4), list);
    }
    // Anything else gets a result of its own, also where the program wrote in place.
    ggml_tensor * c = ggml_new_tensor(work->context(), t.type, GGML_MAX_DIMS, t.ne);
    c->op           = t.op;
    memcpy(c->op_params, t.op_params, sizeof c->op_params);
    if (t.view_src && (t.op == GGML_OP_ACC || t.op == GGML_OP_SET)) {
        c->op_params[4] = 0; // "in place": without it the result starts as a copy of the first source
    }
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        // A copy names its destination as a source, which is the result itself here.
        const bool destination = t.op == GGML_OP_CPY && i == 1;
        c->src[i]              = destination ? c : t.src[i] ? source(t.src[i]) : nullptr;
    }
    return c;
}

ggml_tensor * replay::clone(const traced & t) {
    if (t.stale) {
        throw graph_error(t.name + ": reads memory that was written over in place");
    }
    work->require(2);
    ggml_tensor * c   = narrow.count(&t) ? clone_narrow(t) : t.is_view() ? clone_view(t) : clone_operator(t);
    return clones[&t] = listed(c, t.name);
}

ggml_tensor * replay::listed(ggml_tensor * c, const std::string & name) {
    ggml_set_name(c, name.c_str());
    order.push_back(c);
    work->compute(c);
    return c;
}

// ---- one element a row -------------------------------------------------------------------------------------------------

// Operators on single elements, after a product with a weight: scales, soft caps, biases.
static bool is_elementwise(const traced & t) {
    const bool by_column = t.src[1] && t.src[1]->kind == traced::weight && t.src[1]->ne[0] == t.ne[0] &&
                           ggml_nelements(t.src[1]->original) == t.ne[0] && t.src[1]->type == GGML_TYPE_F32;
    switch (t.op) {
        case GGML_OP_SCALE:
        case GGML_OP_CLAMP:
        case GGML_OP_UNARY:
            return true;
        case GGML_OP_ADD:
        case GGML_OP_MUL:
            return by_column;
        default:
            return false;
    }
}

void replay::find_narrow(const std::vector<int32_t> & picks) {
    std::vector<const traced *> chain;
    const traced *              t = &recorded.boundary(b);
    for (; is_elementwise(*t) && t->index >= recorded.block_begin(b); t = t->src[0]) {
        chain.push_back(t);
    }
    chain.push_back(t);
    const bool product = t->kind == traced::node && t->op == GGML_OP_MUL_MAT && t->src[0]->kind == traced::weight &&
                         t->ne[2] * t->ne[3] == 1 && t->index >= recorded.block_begin(b);
    if (!product || (int64_t) picks.size() != t->ne[1]) {
        return;
    }
    const int64_t ne[] = { t->ne[1], 1, 1, 1 };
    columns            = work->constant(GGML_TYPE_I32, ne,
                                        { (const uint8_t *) picks.data(), (const uint8_t *) (picks.data() + picks.size()) });
    work->require(1);
    const ggml_tensor * rows = ggml_get_rows(work->context(), t->src[0]->original, columns);
    if (ggml_backend_supports_op(work->where().backend.get(), rows)) {
        narrow.insert(chain.begin(), chain.end());
    }
}

// The product's picked element of each row is that row's product with the weight's picked row.
ggml_tensor * replay::clone_narrow(const traced & t) {
    work->require(4);
    ggml_context * ctx = work->context();
    if (t.op == GGML_OP_MUL_MAT) {
        ggml_tensor * rows = listed(ggml_get_rows(ctx, t.src[0]->original, columns), t.name + " rows");
        ggml_tensor * each = listed(ggml_mul(ctx, source(t.src[1]), rows), t.name + " terms");
        return ggml_sum_rows(ctx, each);
    }
    const int64_t ne[] = { 1, t.ne[1], 1, 1 };
    ggml_tensor * c    = ggml_new_tensor(ctx, t.type, GGML_MAX_DIMS, ne);
    c->op              = t.op;
    memcpy(c->op_params, t.op_params, sizeof c->op_params);
    c->src[0] = source(t.src[0]);
    if (t.src[1]) {
        ggml_tensor * column = ggml_reshape_2d(ctx, t.src[1]->original, 1, t.ne[0]);
        c->src[1]            = listed(ggml_get_rows(ctx, column, columns), t.src[1]->name + " picked");
    }
    return c;
}

} // namespace plumb
