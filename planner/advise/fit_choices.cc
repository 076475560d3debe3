#include "planner/advise/fit_choices.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "planner/advise/fit_variants.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

constexpr std::int64_t kMostActionsOfOne = 4'000'000;
constexpr int kMostCounted = 64;  // devices

/// A part of the space that users restrict, and how they would ask for what a plan has of it.
struct Restriction {
  bool set = false;
  std::function<void(SearchSpace&)> release;
  std::function<std::vector<FieldValue>(const Plan&)> values;
};

FieldValue virtual_stages_value(const Plan& plan) {
  return {Field::virtual_stages, std::to_string(std::max<std::size_t>(1, plan.stages.size() / plan.devices.size()))};
}

std::vector<FieldValue> stages_values(const Plan& plan) {
  if (!has_replicas(plan)) {
    std::vector<FieldValue> values{{Field::stages, std::to_string(plan.num_stages())}};
    if (plan.stages.size() > plan.devices.size()) values.push_back(virtual_stages_value(plan));
    return values;
  }
  std::string counts;
  for (const Stage& stage : plan.stages) counts += (counts.empty() ? "" : ",") + std::to_string(stage.devices.size());
  return {{Field::replicas, counts}};
}

/// Layers can't be stated: the search picks them where nobody says what to recompute.
FieldValue searched_recompute(const Plan& plan) {
  const bool layers = std::ranges::any_of(plan.stages, [](const Stage& s) { return s.recompute.mode == Recompute::Mode::some; });
  return layers ? FieldValue{Field::recompute, ""} : recompute_value(plan);
}

std::vector<Restriction> restrictions_of(const SearchSpace& space) {
  using Values = std::vector<FieldValue>;
  const bool staged = !space.stage_counts.empty() || !space.replicas.empty();
  return {{!space.cuts.empty(), [](SearchSpace& s) { s.cuts.clear(); }, [](const Plan& plan) { return Values{cuts_value(plan)}; }},
          {staged,
           [](SearchSpace& s) {
             s.stage_counts.clear();
             s.cuts.clear();
             s.replicas.clear();
           },
           stages_values},
          {!space.virtual_counts.empty(), [](SearchSpace& s) { s.virtual_counts.clear(); },
           [](const Plan& plan) { return Values{virtual_stages_value(plan)}; }},
          {!space.microbatch_counts.empty(), [](SearchSpace& s) { s.microbatch_counts.clear(); },
           [](const Plan& plan) { return Values{microbatches_value(plan.num_microbatches())}; }},
          {!space.schedules.empty(), [](SearchSpace& s) { s.schedules.clear(); },
           [](const Plan& plan) {
             return Values{{Field::schedule, plan.schedule}};
           }},
          {!space.recompute.empty(), [](SearchSpace& s) { s.recompute.clear(); },
           [](const Plan& plan) { return Values{searched_recompute(plan)}; }}};
}

std::optional<Candidate> best_of(SearchSpace space, const CostModel& cost) {
  space.keep = 1;
  space.exact = true;  // no option names a plan with fused weight gradients
  space.look_beyond = false;
  space.most_actions = kMostActionsOfOne;
  space.improved = {};
  try {
    SearchResult result = search_plans(space, cost);
    if (result.ranked.empty()) return std::nullopt;
    return std::move(result.ranked.front());
  } catch (const Error&) {
    return std::nullopt;  // the other restrictions contradict each other without this one
  }
}

void add_change(const SearchSpace& space, const std::vector<const Restriction*>& released, const CostModel& cost, FitAnswer& answer) {
  SearchSpace wider = space;
  for (const Restriction* restriction : released) restriction->release(wider);
  std::optional<Candidate> best = best_of(wider, cost);
  const auto same = [&](const FittingChange& change) { return change.plan == best->plan; };
  if (!best || std::ranges::any_of(answer.changes, same)) return;  // it is enough to leave less out
  std::vector<FieldValue> options;
  for (const Restriction* restriction : released) options = with_values(std::move(options), restriction->values(best->plan));
  // Stages left out take their cuts along.
  if (released.size() > 1) std::erase_if(options, [](const FieldValue& value) { return value.field == Field::cuts; });
  answer.changes.push_back({options, static_cast<int>(released.size()), std::move(best->plan), std::move(best->prediction)});
}

/// The un-pipelined step: what a question about devices begins with.
Plan one_stage(const SearchSpace& space, const CostModel& cost) {
  PlanOptions options;
  options.devices = {space.devices.front()};
  options.batch = space.batch;
  options.layers = cost.layers();
  options.precision = cost.profile().precision;
  options.stages = 1;
  options.microbatches = space.microbatch_counts.empty() ? std::min(space.batch, 64) : space.microbatch_counts.back();
  return make_plan(options);
}

std::int64_t cap_of(const SearchSpace& space, const std::string& device) {
  const auto index = as_index(std::ranges::find(space.devices, device) - space.devices.begin());
  return index < space.memory_bytes.size() ? space.memory_bytes[index] : space.whole_machine_memory_bytes;
}

}  // namespace

FitAnswer choices_that_fit(const SearchSpace& space, const SearchResult& failed, const CostModel& cost) {
  FitAnswer answer;
  answer.excess = {failed.smallest_excess_bytes, failed.smallest_excess_device, cap_of(space, failed.smallest_excess_device)};
  answer.nearest = answer.excess;
  std::vector<Restriction> restrictions = restrictions_of(space);
  std::erase_if(restrictions, [](const Restriction& restriction) { return !restriction.set; });
  std::vector<const Restriction*> all;
  for (const Restriction& restriction : restrictions) {
    add_change(space, {&restriction}, cost, answer);
    all.push_back(&restriction);
  }
  if (answer.changes.empty() && all.size() > 1) add_change(space, all, cost, answer);
  std::ranges::stable_sort(answer.changes, {}, [](const FittingChange& change) { return change.prediction.step_s; });
  answer.complete = !answer.changes.empty() || restrictions.empty();  // searches are bounded, restrictions not left out by twos
  if (answer.changes.empty() && answer.excess.bytes > 0)
    answer.needed = devices_needed(one_stage(space, cost), answer.excess.device, answer.excess.cap_bytes, kMostCounted, cost);
  return answer;
}

}  // namespace mptune::planner
