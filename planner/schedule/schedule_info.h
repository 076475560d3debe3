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

/// What the rows of a schedule depend on, beside stages, devices and micro-batches.
enum class RowsFrom {
  pattern,  ///< nothing else
  costs,    ///< times and bytes: where weight gradients go, how deep the warm-up is
  search,   ///< costs and memory caps; even whether the backward is split
};

/// What is known of a named schedule: the one place that tells schedules apart.
struct ScheduleInfo {
  static constexpr int kAnyNumber = std::numeric_limits<int>::max();

  const char* name;
  StageMap map;
  int least_virtual_stages;  ///< stages per device that a search tries, from; also what a plan has by default
  int most_virtual_stages;   ///< up to
  bool one_microbatch;       ///< runs the batch whole
  bool whole_backward;       ///< never splits it: with one micro-batch all such schedules of a map have the same rows
  RowsFrom rows_from;
  std::int64_t relative_cost;  ///< of making the rows of a plan, in simulations of it
  /// Requires: nothing missing (`missing_for`); costs of every stage.
  Rows (*rows)(const Layout&, const ScheduleCosts&);
};

/// All schedules but the late ones, in the order in which they are tried and listed.
[[nodiscard]] std::span<const ScheduleInfo> schedules();
/// naive-late, gpipe-late, 1f1b-late, interleaved-late, looped-bfs-late: the order of the schedule before "-late", with split backwards and
/// weight gradients as late as memory allows (late_weights). They are made for idle devices that help: a search tries them where it tries
/// that.
[[nodiscard]] std::span<const ScheduleInfo> late_schedules();
/// A late one or another; null for a name that is no schedule's.
[[nodiscard]] const ScheduleInfo* find_schedule(const std::string& name);
/// Throws Error, which lists the names, for one that is no schedule's.
[[nodiscard]] const ScheduleInfo& schedule_info(const std::string& name);

/// naive, gpipe, 1f1b, eager-1f1b, interleaved, looped-bfs, zb1p, zb2p, zbv, v-half, v-min, dualpipe-v, list.
[[nodiscard]] const std::vector<std::string>& schedule_names();

/// The device of every stage of a schedule on D devices with V stages on each: stage s on device s mod D, or in a V.
/// Throws Error for an unknown name and for a V that the map forbids: 1 for StageMap::one_each, 2 for StageMap::v.
[[nodiscard]] std::vector<int> stage_devices(const std::string& name, int devices, int virtual_stages);

/// What a schedule asks of the plan that this one does not have: a device map, a number of micro-batches; empty: nothing.
[[nodiscard]] std::string missing_for(const ScheduleInfo& schedule, const Layout& layout);

}  // namespace mptune::planner
