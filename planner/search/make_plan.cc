#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <numeric>
#include <set>

#include "planner/field.h"
#include "planner/schedule/schedule.h"
#include "planner/schedule/schedule_info.h"
#include "planner/search/cut_places.h"
#include "planner/search/plan_checks.h"
#include "planner/search/search.h"
#include "planner/threads.h"
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

std::string sizes_in_words(const std::vector<int>& sizes) {
  const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
  std::string text = std::to_string(sizes.size()) + (sizes.size() == 1 ? " micro-batch of " : " micro-batches of ");
  if (*least != *most) text += std::to_string(*least) + " to ";
  return text + std::to_string(*most);
}

// Returns `word` and the stages for which `has` is true: ", recomputing stages 0,2".
template <class Has>
std::string stages_in_words(const Plan& plan, const std::string& word, const Has& has) {
  std::string stages;
  int count = 0;
  for (int s = 0; s < plan.num_stages(); ++s) {
    if (!has(plan.stages[as_index(s)])) continue;
    stages += (count++ == 0 ? "" : ",");
    stages += std::to_string(s);
  }
  if (count == 0) return "";
  if (count == plan.num_stages()) return ", " + word;
  return ", " + word + (count == 1 ? " stage " : " stages ") + stages;
}

std::string memory_in_words(const Plan& plan) {
  const auto recomputes = [](const Stage& stage) { return stage.recompute.mode != Recompute::Mode::none; };
  const auto offloads = [](const Stage& stage) { return stage.offload; };
  return stages_in_words(plan, "recomputing", recomputes) + stages_in_words(plan, "offloading", offloads);
}

bool allows_channels_last(const SearchSpace& space) {
  const auto is = [](const ExecutionVariant& options) { return options.memory_format == MemoryFormat::channels_last; };
  return !space.exact && std::ranges::any_of(space.variants, is);
}

// Returns ", weight gradients of micro-batches 0-1, 2-3 fused"; three groups at most.
std::string fused_in_words(const Plan& plan) {
  std::set<std::pair<int, int>> groups;
  for (const std::vector<Action>& row : plan.actions)
    for (const Action& action : row)
      if (action.further > 0) groups.emplace(action.microbatch, action.last_microbatch());
  if (groups.empty()) return "";
  std::string text;
  int shown = 0;
  for (const auto& [first, last] : groups) {
    text += (shown == 0 ? "" : ", ") + (shown == 3 ? "..." : std::to_string(first) + "-" + std::to_string(last));
    if (++shown > 3) break;
  }
  return ", weight gradients of micro-batches " + text + " fused";
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

std::string options_in_words(const Plan& plan) {
  const ExecutionOptions& options = plan.options;
  const std::string format = options.memory_format == MemoryFormat::contiguous ? "" : std::string(", ") + name_of(options.memory_format);
  const std::string threads = planner::threads_in_words(plan);
  const std::string precision = options.precision == Precision::float32 ? "" : std::string(", ") + name_of(options.precision);
  return precision + format + (threads.empty() ? "" : ", " + threads) + (options.replace_slow_kernels ? ", slow kernels replaced" : "");
}

/// Runs the whole batch at once where the model takes it, else in as few micro-batches as it takes.
PlanOptions one_stage(PlanOptions options, int fewest) {
  options.schedule = fewest > 1 ? kDefaultSchedule : "naive";
  options.stages = 1;
  options.microbatches = fewest;
  return options;
}

PlanOptions options_of(const SearchSpace& space, int layers, Precision precision) {
  PlanOptions options;
  options.devices = space.devices;
  options.batch = space.batch;
  options.layers = layers;
  options.precision = precision;
  return options;
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

std::vector<NamedPlan> baseline_plans(const SearchSpace& space, int layers, Precision precision) {
  std::vector<NamedPlan> plans;
  const int devices = static_cast<int>(space.devices.size());
  const auto [fewest, most] = allowed_counts(space.samples, space.batch);
  PlanOptions one = one_stage(options_of(space, layers, precision), fewest);
  plans.push_back({kSingleDeviceBaseline, make_plan(one)});
  if (!space.whole_machine.empty()) {
    one.devices = {space.whole_machine.front()};
    plans.push_back({kAllCoresBaseline, make_plan(one)});
    if (allows_channels_last(space)) {
      plans.push_back({kAllCoresChannelsLastBaseline, plans.back().plan});
      plans.back().plan.options.memory_format = MemoryFormat::channels_last;
    }
  }
  if (devices < 2) return plans;
  if (devices <= layers) {
    PlanOptions pipeline = options_of(space, layers, precision);
    pipeline.schedule = "naive";
    if (fewest == 1) plans.push_back({kNaiveBaseline, make_plan(pipeline)});
    pipeline.schedule = kDefaultSchedule;
    pipeline.microbatches = std::clamp(std::min(4 * devices, space.batch), fewest, most);
    const bool several = !space.keep_numerics || space.microbatch_counts != std::vector{1};
    if (several) plans.push_back({kPipelineBaseline, make_plan(pipeline)});
  }
  const int shared = (fewest + devices - 1) / devices * devices;  // micro-batches that all devices share evenly
  if (shared <= most && !space.no_replicas) {
    PlanOptions parallel = options_of(space, layers, precision);
    parallel.replicas = {devices};
    parallel.microbatches = shared;
    plans.push_back({kDataParallelBaseline, make_plan(parallel)});
  }
  return plans;
}

std::string describe(const Plan& plan) {
  const int microbatches = plan.num_microbatches();
  if (plan.num_stages() > 1) {
    std::string replicas;
    std::set<int> devices;
    for (const Stage& stage : plan.stages) {
      devices.insert(stage.devices.begin(), stage.devices.end());
      replicas += (replicas.empty() ? "" : ",");
      replicas += std::to_string(stage.devices.size());
    }
    std::string text = "pipeline of " + std::to_string(plan.num_stages()) + " stages";
    if (std::ssize(devices) < plan.num_stages())
      text += " on " + std::to_string(devices.size()) + (devices.size() == 1 ? " device" : " devices");
    text += ", " + plan.schedule + ", " + sizes_in_words(plan.microbatch_sizes);
    if (plan.options.idle_devices_help) text += ", idle devices help";
    return text + (has_replicas(plan) ? ", replicas " + replicas : "") + memory_in_words(plan) + options_in_words(plan) +
           fused_in_words(plan);
  }
  const std::size_t replicas = plan.stages.empty() ? 0 : plan.stages.front().devices.size();
  std::string text = "one device";
  if (replicas > 1) text = "data parallel over " + std::to_string(replicas) + " devices";
  const int cores = planner::default_threads(plan.devices.front());
  if (replicas == 1 && cores > 1) text += " of " + std::to_string(cores) + " cores";
  if (microbatches > static_cast<int>(replicas)) text += ", " + sizes_in_words(plan.microbatch_sizes);
  return text + memory_in_words(plan) + options_in_words(plan) + fused_in_words(plan);
}

}  // namespace mptune
