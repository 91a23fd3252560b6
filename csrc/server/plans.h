// The steerings that a server has loaded, and the plans made of them.

#pragma once

#include "steered_server.h"
#include "steering_file.h"

#include <mutex>
#include <optional>
#include <vector>

namespace plumb {

struct steering {
    uint64_t      id; // ascending in the order of loading, in which they act
    std::string   name;
    std::string   path;
    steering_file file;
};

struct plan {
    struct part {
        std::shared_ptr<const steering> what;
        double                          strength;
    };

    std::vector<part> parts; // ascending ids, strengths other than 0; never empty
};

class steerings {
  public:
    // name empty: the file's, without its ending. strength: the file's without one. All throw failure and change nothing then.
    void load(const std::string & path, std::string name, std::optional<double> strength, bool enabled);
    void set(const std::string & name, std::optional<double> strength, std::optional<bool> enabled);
    void remove(const std::string & name);

    // From now on only what fits this model is loaded. Throws if something does not that is loaded already.
    void set_model(const model_facts & facts);
    bool has_model() const;

    common_json list() const;
    plan_ptr    active() const;

    // field: [{"name": …, "strength": …}, …]; without a strength the one that is set.
    plan_ptr requested(const common_json & field) const;

  private:
    struct entry {
        std::shared_ptr<const steering> what;
        double                          strength;
        bool                            enabled;
    };

    const entry & find(const std::string & name) const;
    void          change(std::vector<entry> entries); // all at once, or not at all

    mutable std::mutex         mutex;
    std::vector<entry>         entries;
    plan_ptr                   enabled_plan;
    uint64_t                   n_loaded = 0;
    std::optional<model_facts> model;
};

// This process's.
steerings & loaded_steerings();

} // namespace plumb
