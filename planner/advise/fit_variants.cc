#include "planner/advise/fit_variants.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>

#include "planner/plan/plan_error.h"
#include "planner/schedule/schedule.h"
#include "planner/schedule/schedule_info.h"
#include "profiler/base/index.h"
#include "profiler/trace/values/samples_taken.h"

namespace mptune::planner {
namespace {

constexpr int kMostSubsetsOf = 10;  // stages whose subsets are tried: 1023 sets
constexpr int kMostMicrobatches = 1024;
constexpr int kEveryCountTo = 64;

/// Returns the plan with rows of a named schedule; nullopt where it can't be made.
std::optional<Plan> with_schedule(Plan plan, const std::string& name) {
  return if_possible([&] {
    make_schedule(plan, name);
    return std::move(plan);
  });
}

/// True if the plan's rows are those that its schedule's name would make.
bool is_named(const Plan& plan) {
  const std::optional<Plan> again = with_schedule(plan, plan.schedule);
  return again && again->actions == plan.actions;
}

/// True with one stage on each device and no replicas.
bool is_simple_chain(const Plan& plan) {
  std::set<int> used;
  return std::ranges::all_of(plan.stages,
                             [&](const Stage& stage) { return stage.devices.size() == 1 && used.insert(stage.devices[0]).second; });
}

bool recomputes_any(const Plan& plan) {
  return std::ranges::any_of(plan.stages, [](const Stage& stage) { return stage.recompute.mode != Recompute::Mode::none; });
}

/// Returns "none", "all" or "0,2".
template <class Does>
std::string stages_that(const Plan& plan, const Does& does) {
  std::string named;
  int count = 0;
  for (int s = 0; s < plan.num_stages(); ++s)
    if (does(plan.stages[as_index(s)])) named += (count++ == 0 ? "" : ",") + std::to_string(s);
  return count == 0 ? "none" : count == plan.num_stages() ? "all" : named;
}

/// Gives the stage a new range. If it recomputes some layers, a layer that left is recomputed where it is now, if that stage recomputes
/// all.
void set_range(Stage& stage, int first, int last) {
  stage.first_layer = first;
  stage.last_layer = last;
  if (stage.recompute.mode != Recompute::Mode::some) return;
  std::erase_if(stage.recompute.layers, [&](int layer) { return layer < first || layer >= last; });
  if (stage.recompute.layers.empty()) stage.recompute = {};
}

Plan with_cuts(Plan plan, const std::vector<int>& cuts) {
  int first = 0;
  const int layers = plan.stages.back().last_layer;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const int last = s < cuts.size() ? cuts[s] : layers;
    set_range(plan.stages[s], first, last);
    first = last;
  }
  return plan;
}

std::vector<int> cuts_of(const Plan& plan) {
  std::vector<int> cuts;
  for (std::size_t s = 1; s < plan.stages.size(); ++s) cuts.push_back(plan.stages[s].first_layer);
  return cuts;
}

/// Returns a pipeline of one stage (or `each`) on each of the first `devices` devices, without costs or cuts of its own.
std::optional<Plan> spread(const Plan& plan, const FitQuestion& question, int devices, int each, const CostModel& cost) {
  const int stages = devices * each;
  const std::vector<int> cuts = equal_cuts(cost.layers(), stages);
  if (!std::ranges::all_of(cuts, [&](int cut) { return cost.may_cut(cut); })) return std::nullopt;
  Plan wider;
  wider.devices.assign(question.devices.begin(), question.devices.begin() + devices);
  wider.microbatch_sizes = plan.microbatch_sizes;
  wider.options.precision = plan.options.precision;
  const Recompute recompute{recomputes_any(plan) ? Recompute::Mode::all : Recompute::Mode::none, {}, {}};
  const bool offload = std::ranges::all_of(plan.stages, &Stage::offload);
  const std::vector<int> on = stage_devices(plan.schedule, devices, each);
  for (int s = 0; s < stages; ++s) {
    const auto i = as_index(s);
    wider.stages.push_back({s == 0 ? 0 : cuts[i - 1], s + 1 == stages ? cost.layers() : cuts[i], {on[i]}, recompute, offload});
  }
  return with_schedule(std::move(wider), plan.schedule);
}

/// Replicas become stages only where all devices then have one stage: options can say nothing else.
FieldValue stages_value(const Plan& plan, int stages) {
  if (!has_replicas(plan)) return {Field::stages, std::to_string(stages)};
  std::string counts = "1";
  for (int s = 1; s < stages; ++s) counts += ",1";
  return {Field::replicas, counts};
}

std::vector<FitVariant> more_stages(const Plan& plan, const FitQuestion& question, const CostModel& cost) {
  std::vector<FitVariant> variants;
  const int used = static_cast<int>(plan.devices.size());
  const int all = static_cast<int>(question.devices.size());
  const int each = has_replicas(plan) ? 1 : plan.num_stages() / used;
  if (!is_named(plan) || each < 1) return variants;
  for (int devices = has_replicas(plan) ? all : used + 1; devices <= all && devices * each <= cost.layers(); ++devices) {
    if (devices * each <= plan.num_stages()) continue;
    const std::optional<Plan> wider = spread(plan, question, devices, each, cost);
    if (!wider) continue;
    std::vector<FieldValue> options{stages_value(plan, devices * each)};
    if (recomputes_any(plan) && recompute_value(plan) != recompute_value(*wider)) options.push_back(recompute_value(*wider));
    if (offload_value(plan) != offload_value(*wider)) options.push_back(offload_value(*wider));
    variants.push_back({*wider, devices, options});
    if (each > 1) continue;
    const std::vector<int> cuts = least_excess_cuts(*wider, caps_of_plan(*wider, question.devices, question.memory_bytes), cost);
    if (cuts.empty() || cuts == cuts_of(*wider)) continue;
    FitVariant recut{with_cuts(*wider, cuts), devices, options};
    recut.options.push_back(cuts_value(recut.plan));
    variants.push_back(std::move(recut));
  }
  return variants;
}

std::vector<FitVariant> other_schedules(const Plan& plan, const FitQuestion& question) {
  std::vector<FitVariant> variants;
  for (const ScheduleInfo& schedule : schedules()) {
    const std::string name = schedule.name;
    if (name == plan.schedule || schedule.one_microbatch) continue;
    std::optional<Plan> other = with_schedule(plan, name);
    if (other && executable(*other, question.capabilities)) variants.push_back({std::move(*other), 1, {{Field::schedule, name}}});
  }
  return variants;
}

std::vector<FitVariant> moved_cuts(const Plan& plan, const FitQuestion& question, const CostModel& cost) {
  std::vector<FitVariant> variants;
  const auto add = [&](Plan moved, int amount) {
    FieldValue cuts = cuts_value(moved);
    variants.push_back({std::move(moved), amount, {std::move(cuts)}});
  };
  for (std::size_t s = 0; s + 1 < plan.stages.size(); ++s) {
    for (int cut = plan.stages[s].first_layer + 1; cut < plan.stages[s + 1].last_layer; ++cut) {
      if (cut == plan.stages[s].last_layer || !cost.may_cut(cut)) continue;
      Plan moved = plan;
      set_range(moved.stages[s], plan.stages[s].first_layer, cut);
      set_range(moved.stages[s + 1], cut, plan.stages[s + 1].last_layer);
      add(std::move(moved), std::abs(cut - plan.stages[s].last_layer));
    }
  }
  std::ranges::stable_sort(variants, {}, &FitVariant::amount);
  if (plan.num_stages() > 2 && is_simple_chain(plan)) {
    const std::vector<int> cuts = least_excess_cuts(plan, caps_of_plan(plan, question.devices, question.memory_bytes), cost);
    if (!cuts.empty()) add(with_cuts(plan, cuts), cost.layers());
  }
  return variants;
}

/// True for every number of micro-batches up to a limit; among larger numbers, for the least one with each size of the largest micro-batch.
bool is_tried(int count, int batch) {
  return count <= kEveryCountTo || (batch + count - 1) / count < (batch + count - 2) / (count - 1);
}

/// Rows are left to whoever looks at a variant: there may be many variants, with long rows.
std::vector<FitVariant> finer_splits(const Plan& plan, const SampleRange& samples) {
  std::vector<FitVariant> variants;
  if (!is_named(plan)) return variants;
  const int batch = plan.global_batch_size();
  const int replicas = static_cast<int>(std::ranges::max(plan.stages, {}, [](const Stage& s) { return s.devices.size(); }).devices.size());
  const int step = plan.num_stages() == 1 ? replicas : 1;  // a single stage's replicas share evenly
  const auto [fewest, most] = allowed_counts(samples, batch);
  for (int count = std::max(fewest, plan.num_microbatches() + 1); count <= std::min(most, kMostMicrobatches); ++count) {
    if (count < replicas || count % step != 0 || !is_tried(count, batch)) continue;
    FitVariant finer{plan, count, {microbatches_value(count)}};
    finer.plan.microbatch_sizes = split_evenly(batch, count);
    finer.plan.actions.clear();
    if (schedule_info(plan.schedule).one_microbatch) {
      finer.plan.schedule = kDefaultSchedule;
      finer.options.insert(finer.options.begin(), FieldValue{Field::schedule, kDefaultSchedule});
    }
    variants.push_back(std::move(finer));
  }
  return variants;
}

FitVariant recomputing(Plan plan, const std::vector<int>& stages) {
  for (const int s : stages) plan.stages[as_index(s)].recompute = {Recompute::Mode::all, {}, {}};
  FieldValue stated = recompute_value(plan);
  return {std::move(plan), static_cast<int>(stages.size()), {std::move(stated)}};
}

/// Varies stages on devices that are over their caps; what other stages recompute helps nobody. Stages that offload save what they save
/// there.
std::vector<FitVariant> more_recomputation(const Plan& plan, const FitQuestion& question, const CostModel& cost) {
  const std::vector<std::int64_t> peaks = cost.peak_bytes(plan);
  const std::vector<std::int64_t> caps = caps_of_plan(plan, question.devices, question.memory_bytes);
  const auto over = [&](int device) {
    const auto d = as_index(device);
    return caps[d] > 0 && peaks[d] > caps[d];
  };
  std::vector<int> candidates;
  for (int s = 0; s < plan.num_stages(); ++s) {
    const Stage& stage = plan.stages[as_index(s)];
    if (stage.offload || stage.recompute.mode == Recompute::Mode::all) continue;
    if (std::ranges::any_of(stage.devices, over)) candidates.push_back(s);
  }
  std::vector<FitVariant> variants;
  const int count = static_cast<int>(candidates.size());
  if (count == 0) return variants;
  if (is_simple_chain(plan) || count > kMostSubsetsOf) {
    variants.push_back(recomputing(plan, candidates));
    return variants;
  }
  for (unsigned set = 1; set < 1u << count; ++set) {
    std::vector<int> chosen;
    for (int i = 0; i < count; ++i)
      if ((set >> i & 1u) != 0) chosen.push_back(candidates[as_index(i)]);
    variants.push_back(recomputing(plan, chosen));
  }
  std::ranges::stable_sort(variants, {}, &FitVariant::amount);
  return variants;
}

}  // namespace

std::vector<FitVariant> fit_variants(FitKind kind, const Plan& plan, const FitQuestion& question, const CostModel& cost) {
  switch (kind) {
    case FitKind::stages:
      return more_stages(plan, question, cost);
    case FitKind::schedule:
      return other_schedules(plan, question);
    case FitKind::cut:
      return moved_cuts(plan, question, cost);
    case FitKind::split:
      return finer_splits(plan, profiler::samples_taken(cost.profile().layers));
    case FitKind::recompute:
      return more_recomputation(plan, question, cost);
  }
  return {};
}

std::vector<std::int64_t> caps_of_plan(const Plan& plan, const std::vector<std::string>& devices,
                                       const std::vector<std::int64_t>& memory_bytes) {
  std::vector<std::int64_t> caps;
  for (const std::string& device : plan.devices) {
    const auto index = as_index(std::ranges::find(devices, device) - devices.begin());
    caps.push_back(index < memory_bytes.size() ? memory_bytes[index] : 0);
  }
  return caps;
}

FieldValue recompute_value(const Plan& plan) {
  return {Field::recompute, stages_that(plan, [](const Stage& stage) { return stage.recompute.mode != Recompute::Mode::none; })};
}

FieldValue offload_value(const Plan& plan) {
  return {Field::offload, stages_that(plan, [](const Stage& stage) { return stage.offload; })};
}

FieldValue cuts_value(const Plan& plan) {
  std::string text;
  for (const int cut : cuts_of(plan)) text += (text.empty() ? "" : ",") + std::to_string(cut);
  return {Field::cuts, text};
}

FieldValue microbatches_value(int count) {
  return {Field::microbatches, std::to_string(count)};
}

std::vector<FieldValue> with_values(std::vector<FieldValue> values, const std::vector<FieldValue>& more) {
  for (const FieldValue& value : more) {
    std::erase_if(values, [&](const FieldValue& stated) { return stated.field == value.field; });
    values.push_back(value);
  }
  return values;
}

}  // namespace mptune::planner
