#pragma once

#include <string>
#include <vector>

#include "planner/plan.h"

namespace mptune::planner {

/// Intra-op threads of a device of a plan unless options say otherwise: one per core of a CPU device, 1 of any other.
[[nodiscard]] int default_threads(const std::string& device);

/// The list of ExecutionOptions::threads with which each device has `threads` of them, one with fewer cores as many as cores; empty where
/// all then have their default. 0: the default.
[[nodiscard]] std::vector<int> threads_of_devices(const std::vector<std::string>& devices, int threads);

/// Threads of one of the plan's devices. Requires: a valid plan.
[[nodiscard]] int threads_of(const Plan& plan, int device);

/// False if a device of the plan has other than its default threads.
[[nodiscard]] bool has_default_threads(const Plan& plan);

/// "1 thread a device", or "2, 1 threads" where they differ; "" for default threads.
[[nodiscard]] std::string threads_in_words(const Plan& plan);

/// Throws Error unless the list is empty or has an entry per device, from 1 to the device's default.
void validate_threads(const Plan& plan, const std::string& where);

}  // namespace mptune::planner
