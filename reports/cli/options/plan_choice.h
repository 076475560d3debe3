#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/plan/plan.h"
#include "planner/search/make_plan.h"
#include "planner/search/space/search_space.h"
#include "profiler/base/device_spec.h"
#include "profiler/trace/values/profile.h"
#include "reports/cli/options/plan_choice_options.h"

namespace mptune::reports {

/// Call it where a plan file is given: throws Error if options of a plan are given, too.
void check_one_plan(bool options_given, const std::string& where);

/// Throws Error, with the reason, for a plan that the runtime here can't execute.
void check_executable(const Plan& plan, const std::string& where);
/// Does the same for a space that is restricted to one schedule.
void check_schedule_executable(const SearchSpace& space);

/// Refuses, before a model is loaded, values that no model could have, and combinations of them with the devices. Cuts and what depends on
/// the model's batch or number of layers are left to the functions below. `batch`: 0 where the model's batch is used. Throws Error.
void check_before_model(const PlanChoice& choice, const std::vector<std::string>& devices, int batch);
/// Does the same for a search.
void check_search_before_model(const PlanChoice& choice, const std::vector<DeviceSpec>& devices, int batch,
                               const std::vector<Division>& divisions);

/// Throws Error for --memory-format channels_last of a model that has no convolutions.
void check_memory_format(const PlanChoice& choice, bool convolutions);

/// Returns the numbers of intra-op threads that a profile measures besides one per core: fewer where `devices` have several cores and the
/// choice allows it, and those of `plan` if it is not null. Throws Error for --threads that no device can have.
[[nodiscard]] std::vector<int> measured_threads(const PlanChoice& choice, const std::vector<std::string>& devices, const Plan* plan);

/// Returns all values but cuts, which need the layers' names. What is not given is 0 or empty; the schedule is as typed. Throws Error.
[[nodiscard]] PlanOptions plan_values(const PlanChoice& choice);
/// Returns the layer numbers of `--cuts`, which has numbers or layer names. Throws Error.
[[nodiscard]] std::vector<int> parse_cuts(const std::string& text, const std::vector<ProfileLayer>& layers);
/// Returns all values. Throws Error.
[[nodiscard]] PlanOptions plan_options(const PlanChoice& choice, const std::vector<std::string>& devices, int batch,
                                       const std::vector<ProfileLayer>& layers);
/// Returns the plan that options name. Throws Error.
[[nodiscard]] Plan plan_from_options(const PlanChoice& choice, const std::vector<std::string>& devices, int batch,
                                     const std::vector<ProfileLayer>& layers);
/// Returns a search space over `devices`, restricted by what is given. Throws Error for what a search can't be restricted to. `divisions`:
/// lists of devices to search in place of `devices`, if not empty. Those that can't have what is given are left out; where `devices` can't,
/// the division with the most devices that can takes their place.
[[nodiscard]] SearchSpace search_space(const PlanChoice& choice, const std::vector<DeviceSpec>& devices,
                                       const std::vector<std::int64_t>& memory, int batch, const std::vector<ProfileLayer>& layers,
                                       const std::vector<Division>& divisions = {});

}  // namespace mptune::reports
