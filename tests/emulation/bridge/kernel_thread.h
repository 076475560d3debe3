#pragma once

#include <functional>

namespace emulation {

/// Runs `compute` as the CPU kernel of an operator: with one thread, so that sums have one order, below autograd, unseen by profilers and
/// without warnings, which belong to the thread that called the operator. Requires: a thread of the emulated machine or the bridge, which
/// stays so.
void run_as_kernel(const std::function<void()>& compute);

}  // namespace emulation
