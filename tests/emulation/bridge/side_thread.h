#pragma once

#include <functional>

namespace emulation {

/// Runs `compute` as run_as_kernel() does, in a thread that has nothing of the caller's (inference modes, profilers, functions of Python),
/// and waits for it. What it throws is dropped: returns false then. The threads are kept, as LibTorch's libraries keep memory per thread.
[[nodiscard]] bool run_aside(const std::function<void()>& compute);

}  // namespace emulation
