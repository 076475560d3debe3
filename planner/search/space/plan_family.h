#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/plan/executable.h"
#include "planner/plan/plan.h"
#include "planner/search/space/search_space.h"

namespace mptune::planner {

/// Pipelines that differ in their cuts only.
struct PlanFamily {
  std::vector<std::vector<int>> devices;  ///< devices of each stage, indices into the space's
  std::vector<int> sizes;                 ///< sizes of the micro-batches
  std::string schedule;
  int virtual_stages = 1;
  bool helping = false;                      ///< idle devices help
  std::int64_t bound_ns = 0;                 ///< no plan takes less
  std::vector<int> seed;                     ///< cuts whose step is likely to be near `bound_ns`
  std::int64_t plans = 0;                    ///< number of plans: one per set of cuts
  std::optional<MissingCapability> missing;  ///< what the runtime lacks to execute them
  bool splits = false;                       ///< its backward is split, or may be
  bool rows_decide = false;                  ///< `list` on a runtime without split backward: only some of the plans are executable

  [[nodiscard]] bool executable() const { return !missing && !rows_decide; }
  /// True for `list`: costs and caps of a plan decide its rows, and so whether it splits its backward.
  [[nodiscard]] bool rows_are_searched() const;

  /// Returns the plan with these cuts, without rows. Its devices are in the order of the stages.
  [[nodiscard]] Plan plan(const SearchSpace& space, const std::vector<int>& cuts, int layers) const;
  /// Returns the caps of the plan's devices, given those of the space's devices.
  [[nodiscard]] std::vector<std::int64_t> caps(const std::vector<std::int64_t>& caps_of_space) const;
  [[nodiscard]] int stages() const { return static_cast<int>(devices.size()); }
  [[nodiscard]] bool replicated() const;

 private:
  [[nodiscard]] std::vector<int> used() const;
};

/// Returns the devices of each stage as indices into the profile, given the index in the profile of each device of the space.
[[nodiscard]] std::vector<std::vector<int>> in_profile(std::vector<std::vector<int>> stages, const std::vector<int>& indices);

}  // namespace mptune::planner
