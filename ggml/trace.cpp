#include "trace.h"

#include "exact_gelu.h"

#include <algorithm>
#include <cstring>

namespace plumb {

trace::trace(std::vector<std::string> boundaries) : names(std::move(boundaries)), cuts(names.size(), nullptr) {
    for (size_t i = 0; i < names.size(); i++) {
        boundary_of[names[i]] = (int32_t) i;
    }
}

void trace::begin(int32_t first) {
    first_block = first;
    order.clear();
    seen.clear();
    writer.clear();
    storage.clear();
    std::fill(cuts.begin(), cuts.end(), nullptr);
    n_cuts = 0;
    error.clear();
}

void trace::keep_value(traced & t, const ggml_tensor * tensor) {
    if (!tensor->buffer && !(tensor->view_src && tensor->view_src->buffer)) {
        return; // not allocated: only the source of an operator that fills it. A clone that needs the value says so
    }
    t.value.resize(ggml_nbytes(tensor));
    ggml_backend_tensor_get(tensor, t.value.data(), 0, t.value.size());
}

// A scheduler that spreads a graph over devices replaces a node's source by a copy, a leaf called "DEVICE#name#number".
// Taken for an input it would cut every gradient through it without a sound. Returns what it is a copy of, or null if that
// is not a node (then it is a copy of an input, as good as the input itself).
traced * trace::resolve_copy(const ggml_tensor * leaf) {
    const char * first = strchr(leaf->name, '#');
    const char * last  = strrchr(leaf->name, '#');
    if (!first) {
        return nullptr;
    }
    if (first == last) {
        throw graph_error(std::string(leaf->name) + ": a copy between devices whose name is cut off");
    }
    const std::string name(first + 1, last);
    traced *          found = nullptr;
    for (traced & t : storage) {
        if (t.kind == traced::node && t.name == name && t.type == leaf->type &&
            memcmp(t.ne, leaf->ne, sizeof t.ne) == 0) {
            if (found) {
                throw graph_error(std::string(leaf->name) +
                                  ": a copy between devices of one of several nodes of that name");
            }
            found = &t;
        }
    }
    return found;
}

static void describe(traced & t, const ggml_tensor * tensor) {
    t.type = tensor->type;
    t.op   = tensor->op;
    t.name = tensor->name;
    memcpy(t.ne, tensor->ne, sizeof t.ne);
    memcpy(t.nb, tensor->nb, sizeof t.nb);
    memcpy(t.op_params, tensor->op_params, sizeof t.op_params);
}

traced * trace::record_leaf(ggml_tensor * tensor) {
    auto it = seen.find(tensor);
    if (it == seen.end()) {
        if (traced * node = resolve_copy(tensor)) {
            seen[tensor] = node;
            return node;
        }
        traced & t = storage.emplace_back();
        describe(t, tensor);
        const auto usage =
            tensor->buffer ? ggml_backend_buffer_get_usage(tensor->buffer) : GGML_BACKEND_BUFFER_USAGE_COMPUTE;
        t.kind     = usage == GGML_BACKEND_BUFFER_USAGE_WEIGHTS   ? traced::weight
                     : usage == GGML_BACKEND_BUFFER_USAGE_COMPUTE ? traced::input
                                                                  : traced::state;
        t.original = t.kind == traced::input ? nullptr : tensor;
        it         = seen.emplace(tensor, &t).first;
    }
    traced & t = *it->second;
    if (t.kind == traced::input && t.value.empty() && n_cuts >= first_block) {
        keep_value(t, tensor);
    }
    return &t;
}

traced * trace::record_node(ggml_tensor * tensor) {
    traced & t = storage.emplace_back();
    t.kind     = traced::node;
    t.index    = (int32_t) order.size();
    describe(t, tensor);
    order.push_back(&t);
    seen[tensor] = &t;

    for (int i = 0; i < GGML_MAX_SRC; i++) {
        ggml_tensor * s = tensor->src[i];
        if (!s) {
            continue;
        }
        auto it = seen.find(s);
        if (it != seen.end() && it->second->kind == traced::node) {
            t.src[i] = it->second;
        } else if (s->op == GGML_OP_NONE) {
            t.src[i] = record_leaf(s);
        } else {
            throw graph_error(t.name + ": reads " + s->name + ", which the graph has not computed");
        }
    }
    for (const traced * s : t.src) {
        auto it = s && s != &t ? writer.find(memory_of(s)) : writer.end();
        t.stale =
            t.stale || (it != writer.end() && memory_of(s)->kind != traced::state && computed_of(s) != it->second);
    }
    if (!tensor->view_src) {
        return &t;
    }
    // The memory is found through the source, since the tensor's own view_src may be a copy between devices.
    const traced * s = t.op == GGML_OP_SET_ROWS ? t.src[2] : t.op == GGML_OP_CPY ? t.src[1] : t.src[0];
    if (!s || s == &t) {
        throw graph_error(t.name + ": shares memory with something that it does not read");
    }
    t.view_src  = memory_of(s);
    t.view_offs = tensor->view_offs;
    if (t.view_src->kind == traced::state) {
        t.written = last_writer(t.view_src);
    }
    if (!t.is_view()) {
        writer[t.view_src] = &t;
    }
    return &t;
}

bool trace::on_node(ggml_tensor * tensor, bool ask) noexcept {
    if (!error.empty()) {
        return !ask; // the run goes on, unobserved
    }
    try {
        auto it = seen.find(tensor);
        if (!ask) {
            if (it != seen.end()) {
                keep_value(*it->second, tensor);
            }
            return true;
        }
        if (it != seen.end() && it->second->kind == traced::node) {
            throw graph_error("the rows did not fit one graph");
        }
        // a replay computes it exactly, so the graph has to
        forget_exact_gelu(tensor);
        const traced * t = record_node(tensor);
        compute_gelu_exactly(tensor);
        auto b = boundary_of.find(t->name);
        if (b == boundary_of.end()) {
            return captured.count(t->index) > 0;
        }
        if (b->second != n_cuts) {
            throw graph_error(t->name + (b->second < n_cuts ? " is computed more than once in a graph"
                                                            : " is computed before " + names[n_cuts]));
        }
        cuts[n_cuts++]  = t;
        const bool read = b->second >= first_block - 1 && b->second < (int32_t) names.size() - 1;
        return read || captured.count(t->index) > 0;
    } catch (const std::exception & e) {
        error = e.what();
        return !ask;
    }
}

void trace::finish() const {
    if (!error.empty()) {
        throw graph_error(error);
    }
    if (n_cuts != (int32_t) names.size()) {
        throw graph_error("no node of the graph is called " + names[n_cuts]);
    }
}

const traced * trace::last_writer(const traced * state) const {
    auto it = writer.find(state);
    return it == writer.end() ? nullptr : it->second;
}

int32_t trace::block_of(const traced & node) const {
    auto before = [](const traced * cut, int32_t index) { return cut->index < index; };
    return (int32_t) (std::lower_bound(cuts.begin(), cuts.end(), node.index, before) - cuts.begin());
}

} // namespace plumb
