#include "transposed.h"

#include "trace.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <string>
#include <thread>
#include <vector>

namespace plumb {

namespace {

constexpr int64_t n_tile    = 64; // rows that are made floats and written out together
constexpr int64_t n_columns = 16; // columns written together: as many output lines as stay in the first cache

// Rows [begin, begin + n_tile) of one matrix [k, n] of any type into columns of [n, k].
void transpose_rows(const ggml_tensor * weight, const char * from, float * to, int64_t begin,
                    std::vector<float> & tile) {
    const int64_t k = weight->ne[0], n = weight->ne[1];
    const int64_t rows = std::min(n_tile, n - begin);
    tile.resize(n_tile * k);
    for (int64_t r = 0; r < rows; r++) {
        const char * row = from + (begin + r) * weight->nb[1];
        if (weight->type == GGML_TYPE_F32) {
            memcpy(&tile[r * k], row, k * sizeof(float));
        } else {
            ggml_get_type_traits(weight->type)->to_float(row, &tile[r * k], k);
        }
    }
    for (int64_t c0 = 0; c0 < k; c0 += n_columns) {
        for (int64_t c = c0; c < std::min(c0 + n_columns, k); c++) {
            float * column = to + c * n + begin;
            for (int64_t r = 0; r < rows; r++) {
                column[r] = tile[r * k + c];
            }
        }
    }
}

void transpose_on_host(const ggml_tensor * weight, const char * data, float * to, int32_t n_threads) {
    const int64_t        tiles    = (weight->ne[1] + n_tile - 1) / n_tile;
    const int64_t        matrices = weight->ne[2] * weight->ne[3];
    std::atomic<int64_t> next{ 0 };
    auto                 work = [&] {
        std::vector<float> tile;
        for (int64_t i; (i = next++) < tiles * matrices;) {
            const int64_t m = i / tiles;
            const size_t  at = (m % weight->ne[2]) * weight->nb[2] + (m / weight->ne[2]) * weight->nb[3];
            transpose_rows(weight, data + at, to + m * weight->ne[0] * weight->ne[1], (i % tiles) * n_tile, tile);
        }
    };
    const bool               large = ggml_nelements(weight) > (1 << 16);
    std::vector<std::thread> helpers;
    for (int32_t i = 1; i < n_threads && large; i++) {
        helpers.emplace_back(work);
    }
    work();
    for (std::thread & helper : helpers) {
        helper.join();
    }
}

// Where the weight is, by the device's own operators. False if it does not have them.
bool transpose_on_device(device & where, ggml_tensor * weight, ggml_tensor * to) {
    workspace      work(where, 16);
    ggml_context * ctx    = work.context();
    ggml_tensor *  floats = weight;
    if (weight->type != GGML_TYPE_F32) {
        const int64_t        ne[] = { weight->ne[1], weight->ne[2], weight->ne[3], 1 };
        std::vector<int32_t> rows(ne[0] * ne[1] * ne[2]);
        for (size_t i = 0; i < rows.size(); i++) {
            rows[i] = (int32_t) (i % ne[0]);
        }
        std::vector<uint8_t> bytes((const uint8_t *) rows.data(), (const uint8_t *) (rows.data() + rows.size()));
        floats = ggml_get_rows(ctx, weight, work.constant(GGML_TYPE_I32, ne, std::move(bytes)));
        if (!ggml_backend_supports_op(where.backend.get(), floats)) {
            return false;
        }
    }
    work.output(ggml_cpy(ctx, ggml_transpose(ctx, floats), to));
    work.prepare();
    work.run();
    return true;
}

} // namespace

bool transposed_weights::is_weight(const ggml_tensor * t) {
    return t->buffer && ggml_backend_buffer_get_usage(t->buffer) == GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
}

void transposed_weights::fill(device & where, ggml_tensor * weight, ggml_tensor * to) {
    const bool host = ggml_backend_buffer_is_host(weight->buffer);
    if (!host && ggml_backend_is_cpu(where.backend.get())) {
        throw graph_error(std::string(weight->name) + ": repacked for the CPU (" +
                          ggml_backend_buffer_name(weight->buffer) +
                          ") and cannot be read back; open the model with "
                          "use_extra_bufts = false");
    }
    if (weight->type != GGML_TYPE_F32 && !ggml_get_type_traits(weight->type)->to_float) {
        throw graph_error(std::string(weight->name) + ": weights of type " + ggml_type_name(weight->type) +
                          " cannot be made floats");
    }
    if (host && ggml_backend_buffer_is_host(to->buffer)) {
        transpose_on_host(weight, (const char *) weight->data, (float *) to->data, n_threads);
    } else if (host || !transpose_on_device(where, weight, to)) {
        std::vector<char>  data(ggml_nbytes(weight));
        std::vector<float> floats(ggml_nelements(weight));
        ggml_backend_tensor_get(weight, data.data(), 0, data.size());
        transpose_on_host(weight, data.data(), floats.data(), n_threads);
        ggml_backend_tensor_set(to, floats.data(), 0, ggml_nbytes(to));
    }
}

ggml_tensor * transposed_weights::of(device & where, ggml_tensor * weight) {
    for (auto * copies : { &kept, &passing }) {
        auto it = copies->find(weight);
        if (it != copies->end()) {
            return it->second.tensor;
        }
    }
    const int64_t ne[] = { weight->ne[1], weight->ne[0], weight->ne[2], weight->ne[3] };
    owned_tensor  c(GGML_TYPE_F32, ne, ggml_backend_get_default_buffer_type(where.backend.get()));
    ggml_format_name(c.tensor, "%s (transposed)", weight->name);
    fill(where, weight, c.tensor);

    ggml_tensor * result = c.tensor;
    const size_t  bytes  = ggml_nbytes(result);
    const bool    fits   = kept_size + bytes <= budget;
    kept_size += fits ? bytes : 0;
    (fits ? kept : passing).emplace(weight, std::move(c));
    return result;
}

void transposed_weights::release() {
    passing.clear();
}

} // namespace plumb
