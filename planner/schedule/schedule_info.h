#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "planner/schedule/layout.h"

namespace mptune::planner {

/// Where a schedule wants the stages of D devices.
enum class StageMap {
  any,
  one_each,  ///< at most one stage on a device, replicas allowed
  looped,    ///< stage s on device s mod D, no replicas
  v,         ///< two stages on a device: s and 2 D - 1 - s on device s, no replicas
};

/// What the rows of a schedule depend on, besides stages, devices and micro-batches.
enum class RowsFrom {
  pattern,  ///< nothing else
  costs,    ///< times and bytes: where weight gradients go, how deep the warm-up is
  search,   ///< costs and memory caps; even whether the backward is split
};

/// What is known of a named schedule. This is the one place that tells schedules apart.
struct ScheduleInfo {
  static constexpr int kAnyNumber = std::numeric_limits<int>::max();

  const char* name;
  StageMap map;
  int least_virtual_stages;  ///< fewest stages per device that a search tries; also what a plan has by default
  int most_virtual_stages;   ///< most stages per device that a search tries
  bool one_microbatch;       ///< runs the batch as one micro-batch
  bool whole_backward;       ///< never splits the backward: with one micro-batch all whole-backward schedules of a map have the same rows
  RowsFrom rows_from;
  std::int64_t relative_cost;  ///< cost of making the rows of a plan, in simulations of the plan
  /// Makes the rows. Requires: nothing missing (`missing_for`); costs of every stage.
  Rows (*rows)(const Layout&, const ScheduleCosts&);
};

/// Returns all schedules but the late ones, in the order in which they are tried and listed.
[[nodiscard]] std::span<const ScheduleInfo> schedules();
/// Returns naive-late, gpipe-late, 1f1b-late, interleaved-late and looped-bfs-late. They have the order of the schedule before "-late",
/// with split backwards and weight gradients as late as memory allows (late_weights). They are made for idle devices that help, and a
/// search tries them where it tries that help.
[[nodiscard]] std::span<const ScheduleInfo> late_schedules();
/// Returns the schedule of this name, late or not; null where no schedule has the name.
[[nodiscard]] const ScheduleInfo* find_schedule(const std::string& name);
/// Returns the schedule of this name. Throws Error, which lists schedule_names(), where no schedule has the name.
[[nodiscard]] const ScheduleInfo& schedule_info(const std::string& name);

/// Returns naive, gpipe, 1f1b, eager-1f1b, interleaved, looped-bfs, zb1p, zb2p, zbv, v-half, v-min, dualpipe-v and list.
[[nodiscard]] const std::vector<std::string>& schedule_names();

/// Returns the device of every stage of a schedule on D devices with V stages on each: stage s on device s mod D, or in a V. Throws Error
/// for an unknown name and for a V that the map forbids: StageMap::one_each allows 1 only, StageMap::v allows 2 only.
[[nodiscard]] std::vector<int> stage_devices(const std::string& name, int devices, int virtual_stages);

/// Returns what the schedule asks of a plan that this layout does not have: a device map, a number of micro-batches; empty: nothing.
[[nodiscard]] std::string missing_for(const ScheduleInfo& schedule, const Layout& layout);

}  // namespace mptune::planner
