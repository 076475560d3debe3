#include "planner/search/space/schedule_choices.h"

#include <algorithm>
#include <utility>

#include "planner/plan/helping.h"
#include "planner/schedule/schedule.h"
#include "planner/schedule/schedule_info.h"

namespace mptune::planner {
namespace {

// True where a search tries the schedule with `virtual_stages` stages on each device.
bool goes_with(const std::string& schedule, int virtual_stages) {
  const ScheduleInfo& info = schedule_info(schedule);
  return info.least_virtual_stages <= virtual_stages && virtual_stages <= info.most_virtual_stages;
}

bool takes_microbatches(const std::string& schedule, int m) {
  return m == 1 || !schedule_info(schedule).one_microbatch;
}

bool is_late(const std::string& name) {
  return std::ranges::any_of(late_schedules(), [&](const ScheduleInfo& schedule) { return schedule.name == name; });
}

// Returns all orders with split backwards where the user names none. One named schedule with whole backwards only is not what is asked for.
std::vector<std::string> helping_schedules(const SearchSpace& space) {
  if (!may_help(space)) return {};
  if (!space.schedules.empty()) return space.schedules;
  std::vector<std::string> names;
  for (const ScheduleInfo& schedule : late_schedules()) names.emplace_back(schedule.name);
  for (const std::string& name : schedule_names()) names.push_back(name);
  return names;
}

// With one micro-batch, schedules with whole backwards have the same rows, and so do late ones, which are made of these. Where each device
// has one stage, all schedules that split the backward have the same rows: forward, gradients of inputs, gradients of weights. `list` takes
// either.
void keep_different(std::vector<std::string>& names, int virtual_stages) {
  bool whole = false;
  bool late = false;
  bool split = false;
  const auto is_list = [](const std::string& name) { return schedule_info(name).rows_from == RowsFrom::search; };
  std::erase_if(names, [&](const std::string& name) {
    if (schedule_info(name).whole_backward) return std::exchange(whole, true);
    if (is_late(name)) return std::exchange(late, true);
    return virtual_stages == 1 && !is_list(name) && std::exchange(split, true);
  });
  if (virtual_stages == 1 && whole && split) std::erase_if(names, is_list);
}

}  // namespace

bool may_help(const SearchSpace& space) {
  const Capabilities& can = space.capabilities;
  return space.idle_devices_help && can.split_backward && can.idle_devices_help && all_can_help(space.devices);
}

ScheduleChoices::ScheduleChoices(const SearchSpace& space)
    : space_(space), names_(space.schedules.empty() ? schedule_names() : space.schedules), helping_(helping_schedules(space)) {
  // This throws for an unknown name before anything is searched.
  for (const std::string& name : names_) (void)stage_devices(name, 1, goes_with(name, 1) ? 1 : 2);
}

// If the space has one schedule with one number of stages per device, that is what the user wants, however odd.
bool ScheduleChoices::wanted(const std::string& name, int virtual_stages) const {
  return (space_.schedules.size() == 1 && space_.virtual_counts.size() == 1) || goes_with(name, virtual_stages);
}

std::vector<std::string> ScheduleChoices::names(int m, int virtual_stages) const {
  std::vector<std::string> names;
  for (const std::string& name : names_)
    if (wanted(name, virtual_stages) && takes_microbatches(name, m)) names.push_back(name);
  if (m == 1) keep_different(names, virtual_stages);
  return names;
}

std::vector<std::string> ScheduleChoices::helping_names(int m, int virtual_stages) const {
  std::vector<std::string> names;
  for (const std::string& name : helping_)
    if (goes_with(name, virtual_stages) && takes_microbatches(name, m)) names.push_back(name);
  if (m == 1) keep_different(names, virtual_stages);
  return names;
}

std::string ScheduleChoices::of_one_stage(int m) const {
  const std::vector<std::string> of_one = names(m, 1);
  return space_.schedules.size() == 1 && !of_one.empty() ? of_one.front() : "";
}

}  // namespace mptune::planner
