#include "planner/search/make_plan.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <numeric>

#include "planner/plan/field.h"
#include "planner/schedule/schedule.h"
#include "planner/schedule/schedule_info.h"
#include "planner/search/cut_places.h"
#include "planner/search/space/plan_checks.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"

namespace mptune {
namespace {

int stages_of_actions(const PlanOptions& options) {
  int stages = 0;
  for (const std::vector<Action>& row : options.actions)
    for (const Action& action : row) stages = std::max(stages, action.stage + 1);
  return stages;
}

int virtual_stages_of(const PlanOptions& options) {
  if (options.virtual_stages > 0) return options.virtual_stages;
  return options.replicas.empty() && options.actions.empty() ? planner::schedule_info(options.schedule).least_virtual_stages : 1;
}

int number_of_stages(const PlanOptions& options) {
  const int devices = static_cast<int>(options.devices.size());
  if (!options.replicas.empty()) {
    const int stages = static_cast<int>(options.replicas.size());
    if (options.virtual_stages > 1)
      throw planner::FieldError(planner::Field::replicas, "replicas and virtual stages exclude each other", "leave one of them out");
    planner::check_replica_counts(options);
    check_replicas(options.replicas, devices);
    return stages;
  }
  if (options.stages != 0) return options.stages;
  if (!options.cuts.empty()) return static_cast<int>(options.cuts.size()) + 1;
  if (!options.actions.empty()) return stages_of_actions(options);
  const int each = virtual_stages_of(options);
  if (each > 1) planner::check_stages_per_device(options, devices, each);
  return devices * each;
}

std::vector<int> checked_cuts(const PlanOptions& options, int stages) {
  planner::check_stages(stages, options.layers);
  planner::check_cut_places(options.cuts, options.cut_places, stages);
  if (options.cuts.empty() && !options.cut_places.empty()) return planner::nearly_equal_cuts(options.cut_places, options.layers, stages);
  if (options.cuts.empty()) return equal_cuts(options.layers, stages);
  if (static_cast<int>(options.cuts.size()) != stages - 1)
    throw planner::FieldError(planner::Field::cuts,
                              std::to_string(options.cuts.size()) + " cuts do not make " + std::to_string(stages) + " stages",
                              "give the first layer of every stage but the first");
  planner::check_cuts(options.cuts, options.layers);
  return options.cuts;
}

std::vector<int> microbatch_sizes(const PlanOptions& options, int stages) {
  planner::check_microbatches(options);
  if (options.split_size > 0) return split_by_size(options.batch, options.split_size);
  int count = options.microbatches;
  if (count == 0 && !options.actions.empty()) {
    for (const std::vector<Action>& row : options.actions)
      for (const Action& action : row) count = std::max(count, action.microbatch + 1);
  }
  const int replicas = options.replicas.empty() ? 1 : *std::ranges::max_element(options.replicas);
  const planner::ScheduleInfo* schedule = planner::find_schedule(options.schedule);
  const bool whole = schedule != nullptr && schedule->one_microbatch;
  const auto [fewest, most] = allowed_counts(options.samples, options.batch);
  if (count == 0) count = std::max(fewest, whole ? 1 : std::min(std::max(4 * stages, replicas), std::max(fewest, most)));
  if (count > options.batch)
    throw planner::FieldError(planner::Field::microbatches,
                              std::to_string(count) + " micro-batches of a batch of " + std::to_string(options.batch),
                              "use at most one micro-batch per sample");
  return split_evenly(options.batch, count);
}

// The device of each stage is the one whose row has the stage.
std::vector<int> devices_of_rows(const PlanOptions& options, int stages) {
  if (options.actions.size() > options.devices.size())
    throw planner::FieldError(
        planner::Field::schedule,
        std::to_string(options.actions.size()) + " rows of actions for " + std::to_string(options.devices.size()) + " devices",
        "name a device for each row");
  std::vector<int> of(as_index(stages), 0);
  for (std::size_t row = options.actions.size(); row-- > 0;) {
    for (const Action& action : options.actions[row])
      if (action.stage >= 0 && action.stage < stages) of[as_index(action.stage)] = static_cast<int>(row);
  }
  return of;
}

std::vector<int> devices_of_stages(const PlanOptions& options, int stages) {
  if (!options.actions.empty()) return devices_of_rows(options, stages);
  const int devices = static_cast<int>(options.devices.size());
  const int virtual_stages = virtual_stages_of(options);
  if (stages > devices * virtual_stages)
    throw planner::FieldError(planner::Field::stages,
                              std::to_string(stages) + " stages for " + std::to_string(devices) + (devices == 1 ? " device" : " devices"),
                              "use fewer stages, or several per device with `virtual_stages`");
  std::vector<int> of = planner::stage_devices(options.schedule, (stages + virtual_stages - 1) / virtual_stages, virtual_stages);
  of.resize(as_index(stages));
  return of;
}

std::vector<std::vector<int>> devices_of_replicas(const std::vector<int>& replicas) {
  std::vector<std::vector<int>> of;
  int next = 0;
  for (const int count : replicas) {
    of.emplace_back(as_index(count));
    std::iota(of.back().begin(), of.back().end(), next);
    next += count;
  }
  return of;
}

void place(const PlanOptions& options, const std::vector<int>& cuts, Plan& plan) {
  const int stages = static_cast<int>(cuts.size()) + 1;
  std::vector<std::vector<int>> devices = devices_of_replicas(options.replicas);
  if (options.replicas.empty())
    for (const int device : devices_of_stages(options, stages)) devices.push_back({device});
  int used = 0;
  for (int s = 0; s < stages; ++s) {
    const auto at = as_index(s);
    Stage stage{s == 0 ? 0 : cuts[at - 1], s + 1 == stages ? options.layers : cuts[at], devices[at], {}};
    used = std::max(used, std::ranges::max(stage.devices) + 1);
    plan.stages.push_back(std::move(stage));
  }
  plan.devices.assign(options.devices.begin(), options.devices.begin() + used);
}

// Reads "none", "all" or "0,2".
std::vector<int> stages_named(planner::Field field, const std::string& text, int stages) {
  std::vector<int> named;
  if (text.empty() || text == "none") return named;
  if (text == "all") {
    named.resize(as_index(stages));
    std::iota(named.begin(), named.end(), 0);
    return named;
  }
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    int stage = -1;
    const auto [next, error] = std::from_chars(at, end, stage);
    if (error != std::errc() || stage < 0 || stage >= stages || (next != end && (*next != ',' || next + 1 == end)))
      throw planner::FieldError(
          field, "'" + text.substr(0, 40) + "' does not name stages",
          stages > 1 ? "use none, all or stage numbers up to " + std::to_string(stages - 1) : "use none, all or 0, the only stage");
    named.push_back(stage);
    if (next == end) break;
    at = next + 1;
  }
  std::sort(named.begin(), named.end());
  named.erase(std::unique(named.begin(), named.end()), named.end());
  return named;
}

}  // namespace

Plan make_plan(const PlanOptions& given) {
  PlanOptions options = given;
  if (options.schedule.empty() && options.actions.empty()) options.schedule = kDefaultSchedule;
  if (options.devices.empty()) throw planner::FieldError(planner::Field::devices, "no devices", "name at least one");
  if (options.virtual_stages < 0) throw planner::FieldError(planner::Field::virtual_stages, "no stages per device", "use at least 1");
  const int stages = number_of_stages(options);
  Plan plan;
  const std::vector<int> cuts = checked_cuts(options, stages);
  place(options, cuts, plan);
  plan.microbatch_sizes = microbatch_sizes(options, stages);
  for (const int s : recomputed_stages(options.recompute, stages)) plan.stages[as_index(s)].recompute.mode = Recompute::Mode::all;
  for (const int s : offloaded_stages(options.offload, stages)) plan.stages[as_index(s)].offload = true;
  if (options.actions.empty()) {
    planner::make_schedule(plan, options.schedule);
  } else {
    plan.schedule = options.schedule.empty() ? "custom" : options.schedule;
    plan.actions = options.actions;
  }
  plan.options.precision = options.precision;
  validate(plan, options.layers, "the given options");
  planner::validate_schedule(plan, options.actions.empty() ? "the given options" : "`schedule`");
  return plan;
}

std::string why_schedule_not_executable(const std::string& schedule, int virtual_stages, const Capabilities& capabilities) {
  PlanOptions options;
  options.devices = {"first", "second"};
  options.schedule = schedule;
  options.virtual_stages = virtual_stages;
  options.layers = 2 * virtual_stages_of(options);
  options.batch = 4 * options.layers;
  return why_not_executable(make_plan(options), capabilities);
}

std::vector<int> recomputed_stages(const std::string& recompute, int stages) {
  return stages_named(planner::Field::recompute, recompute, stages);
}

std::vector<int> offloaded_stages(const std::string& offload, int stages) {
  return stages_named(planner::Field::offload, offload, stages);
}

void check_replicas(const std::vector<int>& replicas, int devices) {
  if (std::any_of(replicas.begin(), replicas.end(), [](int count) { return count < 1; }) ||
      std::accumulate(replicas.begin(), replicas.end(), std::int64_t{0}) != devices)
    throw planner::FieldError(planner::Field::replicas, "the replicas do not add up to the " + std::to_string(devices) + " devices",
                              "give positive counts that use every device once");
}

}  // namespace mptune
