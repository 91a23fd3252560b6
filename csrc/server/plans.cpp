#include "plans.h"

#include "error.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

namespace plumb {

namespace {

const size_t n_steerings_max = 256;

std::string checked_name(const std::string & name) {
    const bool known = name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
                       std::string::npos;
    if (name.empty() || name.size() > 64 || !known) {
        fail(PLUMB_INVALID, "a steering's name is up to 64 letters, digits, dots, dashes and underscores");
    }
    return name;
}

// The plan of the parts; null if it does nothing. Refuses strengths under which the residual stream could leave what
// floats bear: a NaN in one sequence's keys would reach all that share the cache.
plan_ptr make_plan(std::vector<plan::part> parts) {
    double added = 1e6, grown = 1; // states are taken to be below 1e6
    for (const plan::part & part : parts) {
        if (!std::isfinite((float) part.strength)) {
            fail(PLUMB_INVALID, "the strength of %s is not a number", part.what->name.c_str());
        }
        for (const steering_layer & l : part.what->file.layers) {
            if (part.what->file.op == PLUMB_HOOK_PROJECT_OUT) {
                grown *= std::max(1.0, std::fabs(1 - part.strength * l.weight));
                continue;
            }
            double largest = 0;
            for (float x : l.vector) {
                largest = std::max(largest, (double) std::fabs(x));
            }
            added += std::fabs(part.strength) * largest;
        }
    }
    if (!(added <= 1e15) || !(added * grown <= 1e18)) {
        fail(PLUMB_INVALID, "the strength is beyond what floats can bear; take a smaller one");
    }
    parts.erase(std::remove_if(parts.begin(), parts.end(), [](const plan::part & p) { return p.strength == 0; }),
                parts.end());
    std::sort(parts.begin(), parts.end(),
              [](const plan::part & a, const plan::part & b) { return a.what->id < b.what->id; });
    if (parts.empty()) {
        return nullptr;
    }
    auto p   = std::make_shared<plan>();
    p->parts = std::move(parts);
    return p;
}

} // namespace

steerings & loaded_steerings() {
    static steerings s;
    return s;
}

bool same_plan(const plan_ptr & a, const plan_ptr & b) {
    if (!a || !b || a == b) {
        return a == b;
    }
    return std::equal(
        a->parts.begin(), a->parts.end(), b->parts.begin(), b->parts.end(),
        [](const plan::part & x, const plan::part & y) { return x.what == y.what && x.strength == y.strength; });
}

const steerings::entry & steerings::find(const std::string & name) const {
    for (const entry & e : entries) {
        if (e.what->name == name) {
            return e;
        }
    }
    fail(PLUMB_NOT_FOUND, "no steering is loaded under the name \"%.64s\"", name.c_str());
}

void steerings::change(std::vector<entry> next) {
    std::vector<plan::part> parts;
    for (const entry & e : next) {
        make_plan({ { e.what, e.strength } }); // a request may ask for it
        if (e.enabled) {
            parts.push_back({ e.what, e.strength });
        }
    }
    enabled_plan = make_plan(std::move(parts));
    entries      = std::move(next);
}

void steerings::load(const std::string & path, std::string name, std::optional<double> strength, bool enabled) {
    name         = checked_name(name.empty() ? std::filesystem::path(path).stem().string() : name);
    auto loaded  = std::make_shared<steering>();
    loaded->name = name;
    loaded->path = path;
    loaded->file = read_steering_file(path);
    std::lock_guard<std::mutex> lock(mutex);
    if (model) {
        check_fit(loaded->file, path, *model);
    }
    if (entries.size() >= n_steerings_max) {
        fail(PLUMB_INVALID, "%zu steerings are loaded, as many as there can be; remove one", entries.size());
    }
    std::vector<entry> next = entries;
    for (const entry & e : next) {
        if (e.what->name == name) {
            fail(PLUMB_INVALID, "a steering is loaded under the name \"%s\" already; remove it, or take another name",
                 name.c_str());
        }
    }
    loaded->id = ++n_loaded;
    next.push_back({ loaded, strength.value_or(loaded->file.strength), enabled });
    change(std::move(next));
}

void steerings::set(const std::string & name, std::optional<double> strength, std::optional<bool> enabled) {
    std::lock_guard<std::mutex> lock(mutex);
    std::vector<entry>          next = entries;
    entry &                     e    = next[&find(name) - entries.data()];
    e.strength                       = strength.value_or(e.strength);
    e.enabled                        = enabled.value_or(e.enabled);
    change(std::move(next));
}

void steerings::remove(const std::string & name) {
    std::lock_guard<std::mutex> lock(mutex);
    std::vector<entry>          next = entries;
    next.erase(next.begin() + (&find(name) - entries.data()));
    change(std::move(next));
}

void steerings::set_model(const model_facts & facts) {
    std::lock_guard<std::mutex> lock(mutex);
    for (const entry & e : entries) {
        check_fit(e.what->file, e.what->path, facts);
    }
    model = facts;
}

bool steerings::has_model() const {
    std::lock_guard<std::mutex> lock(mutex);
    return model.has_value();
}

plan_ptr steerings::active() const {
    std::lock_guard<std::mutex> lock(mutex);
    return enabled_plan;
}

plan_ptr steerings::requested(const common_json & field) const {
    if (!field.is_array()) {
        fail(PLUMB_INVALID, "\"steering\" is a list of objects with \"name\" and, if wanted, \"strength\"");
    }
    std::lock_guard<std::mutex> lock(mutex);
    std::vector<plan::part>     parts;
    for (const common_json & item : field) {
        const bool named = item.is_object() && item.contains("name") && item.at("name").is_string();
        const bool typed = named && (!item.contains("strength") || item.at("strength").is_number());
        if (!typed || item.size() > (item.contains("strength") ? 2u : 1u)) { // a misspelt strength is not passed over
            fail(PLUMB_INVALID,
                 "an entry of \"steering\" has a \"name\" and, if wanted, a \"strength\", a number, and no more");
        }
        const entry & e = find(item.at("name").get<std::string>());
        for (const plan::part & p : parts) {
            if (p.what == e.what) {
                fail(PLUMB_INVALID, "\"steering\" names \"%s\" twice", e.what->name.c_str());
            }
        }
        parts.push_back({ e.what, item.contains("strength") ? item.at("strength").get<double>() : e.strength });
    }
    return make_plan(std::move(parts));
}

common_json steerings::list() const {
    std::lock_guard<std::mutex> lock(mutex);
    common_json                 all = common_json::array();
    for (const entry & e : entries) {
        common_json layers = common_json::array();
        for (const steering_layer & l : e.what->file.layers) {
            layers.push_back(l.layer);
        }
        all.push_back({
            { "name", e.what->name },
            { "file", e.what->path },
            { "method", e.what->file.method },
            { "operator", e.what->file.op == PLUMB_HOOK_ADD ? "add" : "project" },
            { "layers", layers },
            { "strength", e.strength },
            { "enabled", e.enabled },
        });
    }
    return all;
}

plan_ptr active_plan() {
    return loaded_steerings().active();
}

plan_ptr requested_plan(const common_json & body) {
    if (!body.contains("steering") || body.at("steering").is_null()) {
        return active_plan();
    }
    try {
        return loaded_steerings().requested(body.at("steering"));
    } catch (const failure & f) {
        throw std::invalid_argument(f.message);
    }
}

common_json plan_json(const plan_ptr & p) {
    common_json all = common_json::array();
    if (p) {
        for (const plan::part & part : p->parts) {
            all.push_back({ { "name", part.what->name }, { "strength", part.strength } });
        }
    }
    return all;
}

std::string steering_metrics() {
    std::string    text = "# HELP plumb:steering_strength Strength of a steering that is enabled\n"
                          "# TYPE plumb:steering_strength gauge\n";
    const plan_ptr p    = active_plan();
    if (p) {
        for (const plan::part & part : p->parts) {
            char number[32];
            snprintf(number, sizeof number, "%.9g", part.strength);
            text += "plumb:steering_strength{name=\"" + part.what->name + "\"} " + number + "\n";
        }
    }
    return text;
}

} // namespace plumb
