#pragma once

#include <string>
#include <vector>

#include "planner/plan/plan.h"

namespace mptune::planner {

/// Returns the intra-op threads of a device unless options say otherwise: one per core of a CPU device, 1 for any other.
[[nodiscard]] int default_threads(const std::string& device);

/// Returns the list of ExecutionOptions::threads that gives each device `threads` of them, at most one per core. The list is empty where
/// all devices then have their default, and where `threads` is 0.
[[nodiscard]] std::vector<int> threads_of_devices(const std::vector<std::string>& devices, int threads);

/// Returns the threads of one of the plan's devices. Requires: a valid plan.
[[nodiscard]] int threads_of(const Plan& plan, int device);

/// False if a device of the plan has a number of threads other than its default.
[[nodiscard]] bool has_default_threads(const Plan& plan);

/// Returns "1 thread a device", or "2, 1 threads" where devices differ; "" for default threads.
[[nodiscard]] std::string threads_in_words(const Plan& plan);

/// Throws Error unless the list is empty or has an entry per device, from 1 to the device's default.
void validate_threads(const Plan& plan, const std::string& where);

}  // namespace mptune::planner
