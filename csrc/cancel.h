// What stands behind a plumb_cancel.

#pragma once

#include "plumb.h"

#include <atomic>

struct plumb_cancel {
    std::atomic<bool> requested{ false };
};

namespace plumb {

inline bool is_cancelled(const plumb_cancel * cancel) {
    return cancel && cancel->requested.load(std::memory_order_relaxed);
}

} // namespace plumb
