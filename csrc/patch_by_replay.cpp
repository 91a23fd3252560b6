// Causal tracing for less than a full pass a site: rows from the restored token on, blocks above the restored layer.
//
// The corrupted run is decoded once; its rows stay in the context's memory. Then a batch with a copy of its rows from each
// restored token on, mostly several copies, is decoded and recorded. A load is a set of sites, one a copy. The first load's
// are restored in that decode; every other's begin as the corrupted run at the lowest layer that one of them restores, and
// climb through replays of the blocks above.

#include "error.h"
#include "patch.h"

#include "ggml/replay.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace plumb {

namespace {

// How many rows a block is replayed for at once: enough for a product with a weight to be limited by arithmetic and not by
// reading the weight. More would leave more copies idle until their layer is reached, and have every row look at more keys.
constexpr int32_t ROWS_AT_ONCE = 128;

struct run_copy {
    int32_t first;     // the restored token, from which on it has rows of its own
    int32_t first_row; // of the batch
};

struct load {
    std::vector<int32_t> patch; // one a copy; -1: idle
    int32_t              lowest;
    std::vector<float>   residual = {}; // what the next block reads
};

// Where each row of the layout is in a block's output, -1 where it is not: the last block may keep rows with logits alone.
std::vector<int32_t> rows_in(const traced & output, const trie_layout & layout, int32_t n_embd) {
    const bool all = output.ne[1] == layout.n_rows();
    if (output.type != GGML_TYPE_F32 || output.ne[0] != n_embd || output.ne[2] * output.ne[3] != 1 ||
        (!all && output.ne[1] != n_outputs(layout))) {
        throw graph_error(output.name + ": not one row of the model's width a token");
    }
    std::vector<int32_t> places;
    int32_t              next = 0;
    for (int8_t logits : layout.logits) {
        places.push_back(all || logits ? next++ : -1);
    }
    return places;
}

struct tracer {
    plumb_session &     session;
    const plumb_noise & noise;
    const plumb_patch * patches;
    float *             logprobs;
    int32_t             n_scored;
    const trie_layout & rows; // of a run

    trace              corrupted; // the run that restores nothing
    std::vector<float> corrupted_logprobs;
    std::vector<float> embeddings; // of the noise's tokens, with it
    trace              recorded;   // the batch of copies

    trie_layout           batch;
    std::vector<run_copy> copies;

    tracer(plumb_session & session, const plumb_noise & noise, const plumb_patch * patches, float * logprobs,
           int32_t n_scored, const trie_layout & rows)
        : session(session), noise(noise), patches(patches), logprobs(logprobs), n_scored(n_scored), rows(rows),
          corrupted(block_outputs(n_layer())), recorded(block_outputs(n_layer())) {}

    int32_t n_layer() const { return session.hooks->n_layer; }
    int32_t n_embd() const { return session.hooks->n_embd; }

    void decode(trace & into, int32_t first_block, const trie_layout & layout, const std::vector<plumb_hook> & plan,
                float * out);
    void decode_corrupted();
    void lay_out(const std::vector<int32_t> & positions, int32_t n_each);
    void decode_first(const load & first, int32_t first_block);
    void climb(std::vector<load> & loads);
    void begin(load & l);
    void restore(load & l, int32_t layer);
    void take_targets(const load & l);
    std::vector<load> loads_of(const std::map<int32_t, std::vector<int32_t>> & sites) const;
};

void tracer::decode(trace & into, int32_t first_block, const trie_layout & layout, const std::vector<plumb_hook> & plan,
                    float * out) {
    into.begin(first_block);
    {
        const during<trace *> recording(session.recording, &into);
        decode_rows(session, layout, 0, layout.n_rows(), plan, out);
    }
    into.finish();
}

void tracer::decode_corrupted() {
    std::vector<plumb_hook> plan;
    if (noise.n_positions > 0 && noise.strength != 0) {
        embeddings.resize((size_t) noise.n_positions * n_embd());
        plumb_hook h = {};
        h.layer      = PLUMB_LAYER_EMBEDDING;
        h.op         = PLUMB_HOOK_NOISE;
        h.strength   = noise.strength;
        h.seed       = noise.seed;
        h.rows       = noise.positions;
        h.n_rows     = noise.n_positions;
        plan.push_back(h);
        h.op  = PLUMB_HOOK_READ;
        h.out = embeddings.data();
        plan.push_back(h);
    }
    llama_memory_clear(llama_get_memory(session.context.get()), false);
    corrupted_logprobs.resize(n_scored);
    decode(corrupted, 1, rows, plan, corrupted_logprobs.data());
}

// A batch of n_each copies for every position. Their sequences share the corrupted run's rows before it.
void tracer::lay_out(const std::vector<int32_t> & positions, int32_t n_each) {
    llama_memory_t memory = llama_get_memory(session.context.get());
    for (size_t s = n_sequences(rows); s < llama_n_seq_max(session.context.get()); s++) {
        llama_memory_seq_rm(memory, (llama_seq_id) s, -1, -1);
    }
    batch = {};
    copies.clear();
    for (int32_t i = 0; i < n_each; i++) {
        for (int32_t position : positions) {
            const int32_t first_sequence = (int32_t) (copies.size() + 1) * n_sequences(rows);
            for (int32_t s = 0; s < n_sequences(rows); s++) {
                llama_memory_seq_cp(memory, 0, first_sequence + s, 0, position);
            }
            copies.push_back({ position, batch.n_rows() });
            append_run(batch, rows, position, first_sequence, 0);
        }
    }
}

// The batch's targets are what the load's copies are scored for.
void tracer::take_targets(const load & l) {
    batch.targets.clear();
    for (size_t c = 0; c < copies.size(); c++) {
        for (const trie_target & t : rows.targets) {
            if (l.patch[c] >= 0) {
                batch.targets.push_back(
                    { copies[c].first_row + t.row - copies[c].first, t.token, l.patch[c] * n_scored + t.out });
            }
        }
    }
}

void tracer::decode_first(const load & first, int32_t first_block) {
    std::vector<std::vector<int32_t>> noise_rows(copies.size());
    std::vector<plumb_hook>           plan;
    for (size_t c = 0; c < copies.size(); c++) {
        plumb_hook h    = {};
        h.op            = PLUMB_HOOK_RESTORE;
        h.layer         = PLUMB_LAYER_EMBEDDING;
        const auto from = std::lower_bound(noise.positions, noise.positions + noise.n_positions, copies[c].first);
        for (auto p = from; p < noise.positions + noise.n_positions; p++) {
            noise_rows[c].push_back(copies[c].first_row + *p - copies[c].first);
        }
        if (!embeddings.empty() && !noise_rows[c].empty()) {
            h.vector = embeddings.data() + (from - noise.positions) * n_embd();
            h.rows   = noise_rows[c].data();
            h.n_rows = (int32_t) noise_rows[c].size();
            plan.push_back(h);
        }
        if (first.patch[c] >= 0) {
            h.layer  = patches[first.patch[c]].layer;
            h.vector = patches[first.patch[c]].vector;
            h.rows   = &copies[c].first_row;
            h.n_rows = 1;
            plan.push_back(h);
        }
    }
    take_targets(first);
    decode(recorded, first_block, batch, plan, logprobs);
}

// The corrupted run's residual streams after the load's lowest layer.
void tracer::begin(load & l) {
    const traced &             output = corrupted.boundary(l.lowest);
    const std::vector<int32_t> from   = rows_in(output, rows, n_embd());
    const std::vector<int32_t> to     = rows_in(recorded.boundary(l.lowest), batch, n_embd());
    l.residual.resize((size_t) recorded.boundary(l.lowest).ne[1] * n_embd());
    for (const run_copy & c : copies) {
        for (int32_t r = c.first; r < rows.n_rows(); r++) {
            const int32_t place = to[c.first_row + r - c.first];
            if (place >= 0) {
                memcpy(l.residual.data() + (size_t) place * n_embd(),
                       (const float *) output.value.data() + (size_t) from[r] * n_embd(), n_embd() * sizeof(float));
            }
        }
    }
}

void tracer::restore(load & l, int32_t layer) {
    const std::vector<int32_t> places = rows_in(recorded.boundary(layer), batch, n_embd());
    for (size_t c = 0; c < copies.size(); c++) {
        if (l.patch[c] >= 0 && patches[l.patch[c]].layer == layer) {
            memcpy(l.residual.data() + (size_t) places[copies[c].first_row] * n_embd(), patches[l.patch[c]].vector,
                   n_embd() * sizeof(float));
        }
    }
}

// All loads but the first through the blocks above their lowest layers.
void tracer::climb(std::vector<load> & loads) {
    devices all(session.params.n_threads, session.threads.get());
    for (int32_t b = loads[1].lowest + 1; b <= n_layer(); b++) {
        if (!frontier(recorded, b).empty()) {
            throw graph_error("block " + std::to_string(b) + " reads more than the residual stream");
        }
        replay block(recorded, b, all);
        block.graph().output(block.output());
        block.prepare();
        for (size_t i = 1; i < loads.size() && loads[i].lowest < b; i++) {
            load & l = loads[i];
            if (is_cancelled(session.cancel)) {
                fail(PLUMB_CANCELLED, "cancelled");
            }
            if (l.residual.empty()) {
                begin(l);
            }
            restore(l, b - 1);
            ggml_backend_tensor_set(block.input(), l.residual.data(), 0, l.residual.size() * sizeof(float));
            block.graph().run();
            const ggml_tensor * output = block.output();
            if (b < n_layer()) {
                l.residual.resize(ggml_nelements(output));
                ggml_backend_tensor_get(output, l.residual.data(), 0, ggml_nbytes(output));
                continue;
            }
            l.residual = {};
            take_targets(l);
            log_probabilities(session, batch, output, logprobs);
        }
    }
}

// Deals sites, by position and each position's by layer, out to the copies of the batch. Loads come out by lowest layer.
std::vector<load> tracer::loads_of(const std::map<int32_t, std::vector<int32_t>> & sites) const {
    std::vector<load>          loads;
    std::map<int32_t, int32_t> dealt;
    for (bool more = true; more;) {
        more   = false;
        load l = { {}, n_layer() };
        for (const run_copy & c : copies) {
            const std::vector<int32_t> & of   = sites.at(c.first);
            int32_t &                    next = dealt[c.first];
            l.patch.push_back(next < (int32_t) of.size() ? of[next++] : -1);
            if (l.patch.back() >= 0) {
                l.lowest = std::min(l.lowest, patches[l.patch.back()].layer);
                more     = true;
            }
        }
        if (more) {
            loads.push_back(l);
        }
    }
    std::stable_sort(loads.begin(), loads.end(), [](const load & a, const load & b) { return a.lowest < b.lowest; });
    return loads;
}

} // namespace

// False where the graph is not one of blocks that read nothing of each other but the residual stream, where runs do not fit
// one graph, or where embeddings are restored, which all blocks are above.
bool patch_job::decode_once_and_replay(const trie_layout & rows) {
    const int32_t n_layer         = session.hooks->n_layer;
    const int32_t n_sequences_max = (int32_t) llama_n_seq_max(session.context.get());
    const int32_t n_rows_max      = std::min(session.params.n_batch_rows, session.params.n_ctx - rows.n_rows());
    if (!session.can_replay || rows.n_rows() > n_rows_max || n_outputs(rows) > session.n_outputs_max ||
        2 * n_sequences(rows) > n_sequences_max) {
        return false;
    }
    std::map<int32_t, std::vector<int32_t>> sites;        // by position
    std::vector<int32_t>                    as_corrupted; // what is restored, if anything, reaches no output
    for (int32_t p = 0; p < n_patches; p++) {
        const plumb_patch & patch = patches[p];
        if (patch.position < 0 || (patch.layer == n_layer - 1 && !rows.logits[patch.position])) {
            as_corrupted.push_back(p);
        } else if (patch.layer < 0) {
            return false;
        } else {
            sites[patch.position].push_back(p);
        }
    }
    tracer t(session, noise, patches, logprobs, n_scored, rows);
    try {
        t.decode_corrupted();
        for (auto at = sites.begin(); at != sites.end();) {
            // as many positions as have room, each as often as has room
            std::map<int32_t, std::vector<int32_t>> some;
            std::vector<int32_t>                    positions;
            int32_t                                 n_rows = 0;
            size_t                                  n_most = 0;
            auto                                    fits   = [&](int32_t rows_more, int32_t n_copies, int32_t limit) {
                return n_rows + rows_more <= limit && n_copies * n_outputs(rows) <= session.n_outputs_max &&
                       (n_copies + 1) * n_sequences(rows) <= n_sequences_max;
            };
            do {
                std::vector<int32_t> & of = some[at->first] = at->second;
                std::stable_sort(of.begin(), of.end(),
                                 [&](int32_t a, int32_t b) { return patches[a].layer < patches[b].layer; });
                positions.push_back(at->first);
                n_rows += rows.n_rows() - at->first;
                n_most = std::max(n_most, of.size());
                at++;
            } while (at != sites.end() && fits(rows.n_rows() - at->first, (int32_t) positions.size() + 1,
                                               std::min(n_rows_max, ROWS_AT_ONCE)));
            int32_t n_each = 1;
            while ((size_t) n_each < n_most && fits(n_each * n_rows, (n_each + 1) * (int32_t) positions.size(),
                                                    std::min(n_rows_max, ROWS_AT_ONCE))) {
                n_each++;
            }
            t.lay_out(positions, n_each);
            std::vector<load> loads = t.loads_of(some);
            t.decode_first(loads[0], loads.size() > 1 ? loads[1].lowest + 1 : n_layer + 1);
            if (loads.size() > 1) {
                t.climb(loads);
            }
        }
    } catch (const graph_error &) {
        session.can_replay = false; // from now on every run is decoded by itself
        return false;
    }
    for (int32_t p : as_corrupted) {
        std::copy(t.corrupted_logprobs.begin(), t.corrupted_logprobs.end(), logprobs + p * n_scored);
    }
    return true;
}

} // namespace plumb
