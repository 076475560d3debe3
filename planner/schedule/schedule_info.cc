#include "planner/schedule/schedule_info.h"

#include <algorithm>

#include "planner/plan/plan_error.h"
#include "planner/schedule/fill.h"
#include "planner/schedule/list_schedule.h"
#include "planner/schedule/named.h"

namespace mptune::planner {
namespace {

constexpr int kAny = ScheduleInfo::kAnyNumber;

//                        stages per device, one micro-batch, whole backward            relative cost
constexpr ScheduleInfo kSchedules[] = {
    {"naive", StageMap::any, 1, 1, true, true, RowsFrom::pattern, 1, gpipe_rows},
    {"gpipe", StageMap::any, 1, 1, false, true, RowsFrom::pattern, 1, gpipe_rows},
    {"1f1b", StageMap::one_each, 1, 1, false, true, RowsFrom::pattern, 1, one_forward_one_backward_rows},
    {"eager-1f1b", StageMap::one_each, 1, 1, false, true, RowsFrom::costs, 4, eager_rows},
    {"interleaved", StageMap::looped, 2, kAny, false, true, RowsFrom::pattern, 1, interleaved_1f1b_rows},
    {"looped-bfs", StageMap::looped, 2, kAny, false, true, RowsFrom::pattern, 1, gpipe_rows},
    {"zb1p", StageMap::one_each, 1, 1, false, false, RowsFrom::costs, 8, zb1p_rows},
    {"zb2p", StageMap::one_each, 1, 1, false, false, RowsFrom::costs, 8, zb2p_rows},
    {"zbv", StageMap::v, 2, 2, false, false, RowsFrom::costs, 8, zbv_rows},
    {"v-half", StageMap::v, 2, 2, false, false, RowsFrom::costs, 8, v_half_rows},
    {"v-min", StageMap::v, 2, 2, false, false, RowsFrom::costs, 8, v_min_rows},
    {"dualpipe-v", StageMap::v, 2, 2, false, false, RowsFrom::pattern, 1, dualpipe_v_rows},
    {"list", StageMap::any, 1, kAny, false, false, RowsFrom::search, 32, list_rows},
};

template <Rows (*rows)(const Layout&, const ScheduleCosts&)>
Rows late(const Layout& layout, const ScheduleCosts& costs) {
  return late_weights(costs, rows(layout, costs));
}

// Schedules that split the backward and keep the order of another schedule.
constexpr ScheduleInfo kLateSchedules[] = {
    {"naive-late", StageMap::any, 1, 1, true, false, RowsFrom::costs, 4, late<gpipe_rows>},
    {"gpipe-late", StageMap::any, 1, 1, false, false, RowsFrom::costs, 4, late<gpipe_rows>},
    {"1f1b-late", StageMap::one_each, 1, 1, false, false, RowsFrom::costs, 4, late<one_forward_one_backward_rows>},
    {"interleaved-late", StageMap::looped, 2, kAny, false, false, RowsFrom::costs, 4, late<interleaved_1f1b_rows>},
    {"looped-bfs-late", StageMap::looped, 2, kAny, false, false, RowsFrom::costs, 4, late<gpipe_rows>},
};

std::vector<int> devices_of(StageMap map, int devices, int virtual_stages) {
  std::vector<int> of;
  for (int s = 0; s < devices * virtual_stages; ++s)
    of.push_back(map == StageMap::v && s / devices % 2 == 1 ? devices - 1 - s % devices : s % devices);
  return of;
}

bool one_stage_each(const Layout& layout) {
  for (int d = 0; d < layout.devices(); ++d)
    if (layout.on(d).size() > 1) return false;
  return true;
}

bool mapped(const Layout& layout, StageMap map) {
  if (!layout.single() || layout.stages() % layout.devices() != 0) return false;
  const std::vector<int> wanted = devices_of(map, layout.devices(), layout.stages() / layout.devices());
  return std::ranges::equal(layout.units(), wanted, {}, &Unit::device);
}

}  // namespace

std::span<const ScheduleInfo> schedules() {
  return kSchedules;
}

std::span<const ScheduleInfo> late_schedules() {
  return kLateSchedules;
}

const ScheduleInfo* find_schedule(const std::string& name) {
  for (const std::span<const ScheduleInfo> known : {schedules(), late_schedules()})
    for (const ScheduleInfo& schedule : known)
      if (schedule.name == name) return &schedule;
  return nullptr;
}

const ScheduleInfo& schedule_info(const std::string& name) {
  if (const ScheduleInfo* found = find_schedule(name)) return *found;
  std::string known;
  for (const std::string& each : schedule_names()) known += each + ", ";
  throw PlanError("unknown schedule '" + name.substr(0, 40) + "'", "schedule", "use " + known + "or a file of actions");
}

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const ScheduleInfo& schedule : kSchedules) all.emplace_back(schedule.name);
    return all;
  }();
  return names;
}

std::vector<int> stage_devices(const std::string& name, int devices, int virtual_stages) {
  const StageMap map = schedule_info(name).map;
  if (devices < 1 || virtual_stages < 1) throw PlanError("no devices, or no stages on them", name, "use at least one of both");
  if (map == StageMap::one_each && virtual_stages != 1)
    throw PlanError("schedule " + name + " puts one stage on a device, not " + std::to_string(virtual_stages), name,
                    "use one stage per device, or gpipe, interleaved or list");
  if (map == StageMap::v && virtual_stages != 2)
    throw PlanError("schedule " + name + " puts two stages on a device, not " + std::to_string(virtual_stages), name,
                    "use two stages per device");
  return devices_of(map, devices, virtual_stages);
}

std::string missing_for(const ScheduleInfo& schedule, const Layout& layout) {
  if (schedule.one_microbatch && layout.microbatches() != 1)
    return "runs the batch as one micro-batch, not " + std::to_string(layout.microbatches());
  const StageMap map = schedule.map;
  if (map == StageMap::one_each && !one_stage_each(layout)) return "puts one stage on a device";
  if (map == StageMap::looped && !mapped(layout, map)) return "puts stage s on device s mod D, and none on several";
  if (map == StageMap::v && (layout.stages() != 2 * layout.devices() || !mapped(layout, map)))
    return "puts stages s and 2 D - 1 - s on device s, and none on several";
  return "";
}

}  // namespace mptune::planner
