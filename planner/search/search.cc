#include "planner/search/search.h"
#include "planner/search/make_plan.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "planner/cost/variants.h"
#include "planner/plan/field.h"
#include "planner/plan/helping.h"
#include "planner/plan/offload.h"
#include "planner/plan/parallelism.h"
#include "planner/plan/plan_error.h"
#include "planner/search/finish/fuse_weights.h"
#include "planner/search/finish/offload_stages.h"
#include "planner/search/graph/graph_search.h"
#include "planner/search/joint/joint_search.h"
#include "planner/search/joint/rejected_classes.h"
#include "planner/search/search_budget.h"
#include "planner/search/space/plan_checks.h"
#include "planner/search/space/space_memory.h"
#include "profiler/base/index.h"

namespace mptune {
namespace {

using planner::SearchBudget;

void check(const SearchSpace& space, const CostModel& cost) {
  if (space.devices.empty()) throw planner::FieldError(planner::Field::devices, "no devices to search for", "name at least one");
  if (space.batch < 1) throw planner::FieldError(planner::Field::batch, "the batch has no samples", "use at least 1");
  cost.require_countable(space.batch);
  if (!space.replicas.empty()) check_replicas(space.replicas, static_cast<int>(space.devices.size()));
  for (const std::vector<int>& cuts : space.cuts) {
    planner::check_cuts(cuts, cost.layers());
    for (const int cut : cuts) {
      if (!cost.may_cut(cut))
        throw planner::FieldError(planner::Field::cuts, "the profile forbids a stage to begin at layer " + std::to_string(cut),
                                  "choose another layer");
    }
  }
}

bool fits(const Candidate& candidate, std::int64_t bytes) {
  const std::vector<std::int64_t>& peaks = candidate.prediction.peak_bytes;
  return std::all_of(peaks.begin(), peaks.end(), [&](std::int64_t peak) { return peak <= bytes; });
}

// Returns the same space for a second search, limited to the work that `evaluator` has left. `evaluator` must outlive the result.
SearchSpace rest_of(const SearchSpace& space, planner::Evaluator& evaluator) {
  SearchSpace rest = space;
  rest.most_actions = evaluator.work_left();
  rest.keep = 1;
  rest.improved = nullptr;
  rest.stop = [&evaluator](double) { return evaluator.stopped(); };
  return rest;
}

std::vector<std::int64_t> capped(std::vector<std::int64_t> caps, std::int64_t cap) {
  for (std::int64_t& own : caps) own = own > 0 ? std::min(own, cap) : cap;
  return caps;
}

// Adds the fastest pipeline within `half` bytes per device. Searches again with that cap, unless the fastest pipeline already fits.
void add_half_memory(const SearchSpace& space, const CostModel& cost, std::int64_t half, planner::Evaluator& evaluator,
                     planner::RatedFamilies& rated) {
  const Candidate* pipeline = evaluator.ranking().fastest_of_several_stages();
  if (half <= 0 || (pipeline != nullptr && fits(*pipeline, half)) || evaluator.spent()) return;
  SearchSpace rest = rest_of(space, evaluator);
  rest.most_actions /= SearchBudget::kHalfMemoryWorkDivisor;
  planner::JointSearch within(rest, cost, capped(planner::caps_of(space), half), 1, rated);
  within.pipelines();
  const std::int64_t simulated = within.evaluator().result().simulated;
  evaluator.worked(rest.most_actions - within.evaluator().work_left(), simulated);
  const Candidate* best = within.evaluator().ranking().fastest_of_several_stages();
  if (best != nullptr) evaluator.ranking().set_best_in_half_memory(*best);
}

// Adds the best plan of the slower kind, pipelines or hybrids, since the main search looks for the fastest of both kinds together. Uses a
// part of the work that is left.
void add_slower_kind(const SearchSpace& space, const CostModel& cost, planner::Evaluator& evaluator, planner::RatedFamilies& rated) {
  if (!space.replicas.empty() || !space.cuts.empty() || space.devices.size() < 3 || evaluator.spent()) return;
  planner::Ranking& ranking = evaluator.ranking();
  const planner::Parallelism slower = ranking.best_s(planner::Parallelism::hybrid) < ranking.best_s(planner::Parallelism::pipeline)
                                          ? planner::Parallelism::pipeline
                                          : planner::Parallelism::hybrid;
  SearchSpace rest = rest_of(space, evaluator);
  rest.most_actions /= SearchBudget::kSlowerKindWorkDivisor;
  planner::JointSearch within(rest, cost, planner::caps_of(space), 1, rated);
  within.only_replicated(slower == planner::Parallelism::hybrid);
  within.pipelines();
  const std::int64_t simulated = within.evaluator().result().simulated;
  evaluator.worked(rest.most_actions - within.evaluator().work_left(), simulated);
  const std::optional<Candidate>& best = within.evaluator().ranking().best(slower);
  if (best && best->prediction.step_s < ranking.best_s(slower)) ranking.set_best(slower, *best);
}

void add_places(std::int64_t half, SearchResult& result) {
  for (int i = 0; i < static_cast<int>(result.ranked.size()); ++i) {
    const Candidate& candidate = result.ranked[as_index(i)];
    if (candidate.plan.num_stages() < 2) continue;
    if (result.best_pipeline < 0) result.best_pipeline = i;
    if (result.best_half_memory < 0 && fits(candidate, half)) result.best_half_memory = i;
  }
}

void add_beyond(const std::map<std::string, NotExecutable>& beyond, SearchResult& result) {
  for (const auto& [schedule, plan] : beyond)
    if (plan.candidate.prediction.step_s < result.ranked.front().prediction.step_s) result.not_executable.push_back(plan);
  std::ranges::stable_sort(result.not_executable, {}, [](const NotExecutable& plan) { return plan.candidate.prediction.step_s; });
}

// No bound covers fused weight gradients.
void add_fused(const SearchSpace& space, const CostModel& cost, planner::Evaluator& evaluator, SearchResult& result) {
  if (space.exact || !space.capabilities.fused_weights) return;
  std::vector<Candidate> faster;
  int tried = 0;
  for (const Candidate& candidate : result.ranked) {
    if (tried == SearchBudget::kMostFused || evaluator.stopped()) break;
    if (candidate.plan.num_stages() < 2 || !planner::splits_backward(candidate.plan)) continue;
    ++tried;
    const std::int64_t actions = std::int64_t{2} * candidate.plan.num_stages() * candidate.plan.num_microbatches();
    const std::int64_t most = std::max(SearchBudget::kLeastFused, evaluator.work_left() / (SearchBudget::kFusedWorkDivisor * actions));
    planner::FusedSearch found = planner::fuse_weights(candidate, planner::caps_of(space, candidate.plan), cost, most);
    evaluator.worked(found.simulated * actions, 0);
    result.simulated += found.simulated;
    if (found.faster) faster.push_back(std::move(*found.faster));
  }
  for (Candidate& candidate : faster) result.ranked.push_back(std::move(candidate));
  std::ranges::stable_sort(result.ranked, {}, [](const Candidate& candidate) { return candidate.prediction.step_s; });
  if (!fuses_weights(result.ranked.front().plan)) return;
  result.complete = false;
  result.lower_bound_s = 0;
  if (space.improved) space.improved(result.ranked.front());
}

// Returns the fastest plans that recompute, with stages that offload instead.
std::vector<Candidate> offloading_instead(const SearchSpace& space, const CostModel& cost, planner::Evaluator& evaluator,
                                          SearchResult& result) {
  std::vector<Candidate> faster;
  int tried = 0;
  for (const Candidate& candidate : result.ranked) {
    if (tried == SearchBudget::kMostOffloaded || evaluator.stopped()) break;
    const auto recomputes = [](const Stage& stage) { return stage.recompute.mode != Recompute::Mode::none; };
    if (std::ranges::none_of(candidate.plan.stages, recomputes)) continue;
    ++tried;
    planner::OffloadSearch found = planner::offload_recomputed(candidate, planner::caps_of(space, candidate.plan), cost);
    evaluator.worked(found.simulated * 2 * candidate.plan.num_stages() * candidate.plan.num_microbatches(), 0);
    result.simulated += found.simulated;
    if (found.faster) faster.push_back(std::move(*found.faster));
  }
  return faster;
}

// No bound covers plans that offload.
void add_offloading(const SearchSpace& space, const CostModel& cost, planner::Evaluator& evaluator, SearchResult& result) {
  if (!planner::may_offload(space)) return;
  std::vector<Candidate> added = offloading_instead(space, cost, evaluator, result);
  std::ranges::copy(evaluator.offloading(), std::back_inserter(added));
  const double longest_s =
      result.ranked.empty() ? space.longest_s : (1 - SearchBudget::kLeastOffloadGain) * result.ranked.front().prediction.step_s;
  for (Candidate& candidate : added) {
    if (candidate.prediction.step_s > longest_s) continue;
    const auto same = [&](const Candidate& known) { return known.plan == candidate.plan; };
    if (std::ranges::none_of(result.ranked, same)) result.ranked.push_back(std::move(candidate));
  }
  std::ranges::stable_sort(result.ranked, {}, [](const Candidate& candidate) { return candidate.prediction.step_s; });
  if (result.ranked.empty() || !planner::offloads(result.ranked.front().plan)) return;
  result.complete = false;
  result.lower_bound_s = 0;
  if (space.improved) space.improved(result.ranked.front());
}

// Returns the known plans on the space's devices and in the cost model's execution variant, fastest first.
std::vector<Candidate> known_of(const SearchSpace& space, const CostModel& cost, const std::vector<Candidate>& known) {
  const auto in_space = [&](const std::string& device) {
    return std::ranges::find(space.devices, device) != space.devices.end() ||
           std::ranges::find(space.whole_machine, device) != space.whole_machine.end();
  };
  std::vector<Candidate> of;
  for (const Candidate& candidate : known) {
    ExecutionOptions options = planner::options_in(cost.variant(), cost.profile().precision, candidate.plan.devices);
    options.idle_devices_help = candidate.plan.options.idle_devices_help;
    if (options == candidate.plan.options && std::ranges::all_of(candidate.plan.devices, in_space)) of.push_back(candidate);
  }
  std::ranges::stable_sort(of, {}, [](const Candidate& candidate) { return candidate.prediction.step_s; });
  return of;
}

SearchResult result_of(const SearchSpace& space, const CostModel& cost, planner::JointSearch& search, std::int64_t half) {
  const double lower_bound_s = search.lower_bound_s();
  search.count_rejected();
  SearchResult result = std::move(search.evaluator().result());
  result.worked = space.most_actions - search.evaluator().work_left();
  result.ranked = search.evaluator().ranking().ranked();
  if (!result.ranked.empty()) {
    // The search within half the memory may find a plan below the bound where rows depend on caps.
    const double best_s = result.ranked.front().prediction.step_s;
    result.lower_bound_s = std::min(lower_bound_s, best_s);
    result.complete = lower_bound_s >= best_s;
    result.classes = planner::rejected_classes(search.families(), result.ranked.front(), search.evaluator().beyond());
    add_fused(space, cost, search.evaluator(), result);
  }
  add_offloading(space, cost, search.evaluator(), result);
  if (result.ranked.empty()) return result;
  result.smallest_excess_bytes = 0;
  result.smallest_excess_device.clear();
  result.stages_per_device = search.stages_per_device();
  result.worked = space.most_actions - search.evaluator().work_left();
  add_beyond(search.evaluator().beyond(), result);
  add_places(half, result);
  return result;
}

}  // namespace

SearchResult search_plans(const SearchSpace& space, const CostModel& cost) {
  check(space, cost);
  if (!cost.is_chain()) return planner::search_graph(space, cost);
  const std::int64_t half = planner::half_of_one_device(space, cost);
  planner::RatedFamilies rated;
  planner::JointSearch search(space, cost, planner::caps_of(space), space.keep, rated);
  search.one_stage();
  search.pipelines();
  if (!std::isfinite(space.longest_s)) {
    add_slower_kind(space, cost, search.evaluator(), rated);
    add_half_memory(space, cost, half, search.evaluator(), rated);
  }
  search.alternatives();
  search.beyond();
  SearchResult result = result_of(space, cost, search, half);
  if (result.ranked.empty() && result.smallest_excess_bytes == 0 && !search.evaluator().spent())
    throw planner::PlanError("no plan meets all the given choices",
                             "stages, cuts, micro-batches, schedule, recomputation and replicas together",
                             "leave one of these options out");
  return result;
}

std::vector<Candidate> memory_front(const SearchSpace& space, const CostModel& cost, double share, const std::vector<Candidate>& known) {
  check(space, cost);
  if (!cost.is_chain()) return planner::graph_front(space, cost, share, known);
  const std::vector<Candidate> seen = known_of(space, cost, known);
  std::vector<Candidate> front;
  std::vector<std::int64_t> caps = planner::caps_of(space);
  SearchSpace rest = space;
  rest.keep = 1;
  rest.improved = nullptr;
  planner::RatedFamilies rated;
  std::int64_t cap = std::numeric_limits<std::int64_t>::max();
  while (true) {
    const auto fitting = std::ranges::find_if(seen, [&](const Candidate& candidate) { return planner::most_bytes(candidate) <= cap; });
    const Candidate* fastest = fitting == seen.end() ? nullptr : &*fitting;
    rest.longest_s = fastest == nullptr ? space.longest_s : fastest->prediction.step_s;
    planner::JointSearch search(rest, cost, caps, 1, rated);
    if (fastest == nullptr || !front.empty()) {
      search.one_stage();
      search.pipelines();
      const Candidate* found = search.evaluator().ranking().fastest();
      if (found != nullptr && (fastest == nullptr || found->prediction.step_s < fastest->prediction.step_s)) fastest = found;
    }
    if (fastest == nullptr) return front;
    // The new plan needs less memory: earlier plans that are not faster leave the front. (Lower caps may change rows for the better.)
    while (!front.empty() && front.back().prediction.step_s >= fastest->prediction.step_s) front.pop_back();
    front.push_back(*fastest);
    if (search.evaluator().spent()) return front;
    rest.most_actions = search.evaluator().work_left();
    const std::int64_t peak = planner::most_bytes(front.back());
    const auto next = static_cast<std::int64_t>(static_cast<double>(peak) * share);
    if (peak < 2) return front;
    cap = std::clamp<std::int64_t>(next, 1, peak - 1);
    caps = capped(planner::caps_of(space), cap);
    rest.whole_machine_memory_bytes = capped({space.whole_machine_memory_bytes}, cap).front();
  }
}

}  // namespace mptune
