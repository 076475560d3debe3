#include "planner/search/graph/graph_search.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "planner/plan/offload.h"
#include "planner/plan/parallelism.h"
#include "planner/schedule/schedule_info.h"
#include "planner/search/graph/graph_bound.h"
#include "planner/search/graph/graph_states.h"
#include "planner/search/joint/evaluator.h"
#include "planner/search/search.h"
#include "planner/search/search_budget.h"
#include "planner/search/space/choices.h"
#include "planner/search/space/space_memory.h"
#include "planner/simulate/schedule_costs.h"
#include "profiler/base/index.h"
#include "profiler/trace/values/profile_tensors.h"

namespace mptune::planner {
namespace {

// True if `next` is the next step of the front of time against memory.
bool fits_below(const Candidate& before, const Candidate& next, double share) {
  const auto most = static_cast<double>(most_bytes(before));
  return most_bytes(next) < most_bytes(before) && static_cast<double>(most_bytes(next)) <= share * most;
}

class GraphSearch {
 public:
  GraphSearch(const SearchSpace& space, const CostModel& cost)
      : space_(space), cost_(cost), caps_(caps_of(space)), evaluator_(space, cost, space.keep), counts_(counts_of(space, cost)) {}

  SearchResult run() {
    SearchResult chain = search_as_chain();
    price(chain);
    if (takes_any_map()) improve_all(chain);
    return result_of(std::move(chain));
  }

 private:
  static std::vector<int> counts_of(const SearchSpace& space, const CostModel& cost) {
    return Choices(space, cost, caps_of(space)).counts();
  }

  // Where each layer reads the one before it, searches the chain of these edges alone; its bounds hold for the graph. Else searches the
  // chain that passes on what later layers read. Plans of either chain are as good in the graph, or nearly.
  SearchResult search_as_chain() {
    SearchSpace chain = space_;
    chain.most_actions = space_.most_actions / SearchBudget::kChainWorkDivisor;
    chain.improved = nullptr;
    if (space_.stop) chain.stop = [this](double part) { return space_.stop(SearchBudget::kChainTime * part); };
    const std::optional<Profile> relaxed = backbone(cost_.profile());
    relaxed_ = relaxed.has_value();
    SearchResult result = search_plans(chain, CostModel(relaxed ? *relaxed : as_chain(cost_.profile())));
    evaluator_.worked(result.worked, result.simulated);
    return result;
  }

  void evaluate(const Plan& plan) { evaluator_.evaluate(parallelism_of(plan, space_.whole_machine), plan, caps_of(space_, plan)); }

  // Prices the plans with the rows of the chain, and with those that the same schedule makes for the graph.
  void price(const SearchResult& chain) {
    for (const Candidate& candidate : chain.ranked) {
      evaluate(candidate.plan);
      const Plan& plan = candidate.plan;
      if (plan.num_stages() < 2 || plan.options.idle_devices_help || fuses_weights(plan) || evaluator_.stopped()) continue;
      const ScheduleInfo* schedule = find_schedule(plan.schedule);
      if (schedule == nullptr || schedule->rows_from == RowsFrom::search) continue;
      Plan again = plan;
      schedule_plan(again, again.schedule, cost_, caps_of(space_, again));
      if (again.actions != plan.actions) evaluate(again);
    }
  }

  // True where the space leaves open what the improved states choose.
  [[nodiscard]] bool takes_any_map() const {
    const bool lists = space_.schedules.empty() || std::ranges::count(space_.schedules, "list") > 0;
    return lists && space_.cuts.empty() && space_.virtual_counts.empty() && space_.replicas.empty() && space_.recompute.empty() &&
           space_.capabilities.several_stages_per_device && cost_.layers() > 1;
  }

  [[nodiscard]] bool wanted(const GraphState& state) const {
    const int stages = static_cast<int>(state.devices.size());
    return space_.stage_counts.empty() || std::ranges::count(space_.stage_counts, stages) > 0;
  }

  [[nodiscard]] std::optional<RatedState> rate(const GraphState& state) {
    if (!wanted(state) || evaluator_.spent()) return std::nullopt;
    evaluator_.worked(SearchBudget::kGraphRatings * 2 * static_cast<std::int64_t>(state.devices.size()) * state.microbatches, 1);
    return rated(state, space_.devices, space_.batch, cost_, caps_, space_.capabilities.split_backward);
  }

  void add_start(const GraphState& state, std::vector<RatedState>& starts) {
    if (std::ranges::find(starts, state, &RatedState::state) != starts.end()) return;
    if (const auto found = rate(state)) starts.push_back(*found);
  }

  // Returns the plans of the chain, and stages that begin where branches begin and join.
  [[nodiscard]] std::vector<RatedState> starts_of(const SearchResult& chain) {
    std::vector<RatedState> starts;
    for (const Candidate& candidate : chain.ranked)
      if (const auto state = state_of(candidate.plan)) add_start(*state, starts);
    std::vector<int> devices = cost_.device_indices(space_.devices);
    std::vector<int> branches = branch_cuts(cost_);
    for (const std::vector<int>& cuts : {branches, few_of(branches)})
      for (const int m : counts_)
        if (!cuts.empty()) add_start(spread_out(cuts, m, split_evenly(space_.batch, m).front(), cost_, devices), starts);
    std::ranges::stable_sort(starts, {}, &RatedState::step_ns);
    return starts;
  }

  // Where there are many branches, returns cuts for about two stages a device, evenly spread.
  [[nodiscard]] std::vector<int> few_of(const std::vector<int>& cuts) const {
    const std::size_t wanted = std::max<std::size_t>(1, 2 * space_.devices.size() - 1);
    if (cuts.size() <= wanted) return cuts;
    std::vector<int> few;
    for (std::size_t k = 0; k < wanted; ++k) few.push_back(cuts[(2 * k + 1) * cuts.size() / (2 * wanted)]);
    return few;
  }

  [[nodiscard]] std::optional<GraphState> state_of(const Plan& plan) const {
    if (plan.num_stages() < 2 || has_replicas(plan)) return std::nullopt;
    if (plan.microbatch_sizes != split_evenly(space_.batch, plan.num_microbatches())) return std::nullopt;
    GraphState state;
    state.microbatches = plan.num_microbatches();
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
      const std::string& name = plan.devices[as_index(plan.stages[s].devices.front())];
      if (s > 0) state.cuts.push_back(plan.stages[s].first_layer);
      state.devices.push_back(static_cast<int>(std::ranges::find(space_.devices, name) - space_.devices.begin()));
    }
    return state;
  }

  // Moves to a faster neighbour, until none is faster.
  [[nodiscard]] RatedState improved(RatedState best) {
    for (bool better = true; better && !evaluator_.spent();) {
      better = false;
      for (const GraphState& state : neighbours_of(best.state, cost_, static_cast<int>(space_.devices.size()), counts_)) {
        if (!seen_.insert(state).second) continue;
        const auto found = rate(state);
        if (!found || found->step_ns >= best.step_ns) continue;
        best = *found;
        better = true;
      }
    }
    return best;
  }

  void improve_all(const SearchResult& chain) {
    std::vector<RatedState> starts = starts_of(chain);
    if (starts.size() > SearchBudget::kGraphStarts) starts.resize(SearchBudget::kGraphStarts);
    for (RatedState& start : starts) start = improved(start);
    std::ranges::stable_sort(starts, {}, &RatedState::step_ns);
    for (std::size_t k = 0; k < std::min<std::size_t>(SearchBudget::kGraphFinished, starts.size()) && (k == 0 || !evaluator_.spent()); ++k)
      finish(starts[k].state);
  }

  void finish(const GraphState& state) {
    Plan plan = plan_of(state, space_.devices, space_.batch, cost_.layers());
    const Layout layout(plan);
    for (const ScheduleInfo& schedule : schedules()) {
      const std::string name = schedule.name;
      const bool allowed = space_.schedules.empty() || std::ranges::count(space_.schedules, name) > 0;
      if (!allowed || !missing_for(schedule, layout).empty()) continue;
      schedule_plan(plan, name, cost_, caps_of(space_, plan));
      evaluate(plan);
    }
    evaluator_.worked(SearchBudget::kGraphListRatings * 2 * plan.num_stages() * plan.num_microbatches(), 0);
  }

  // Returns what the chain's search says about the graph on a class of plans. A relaxed chain's bounds hold; what was only proved slower
  // than the chain's best plan may be faster than the graph's.
  [[nodiscard]] RejectedClass::Why known_of(const RejectedClass& rejected, bool complete) const {
    using enum RejectedClass::Why;
    const bool slower = rejected.time_ratio > 1;
    switch (rejected.why) {
      case slower_by_bound:
        return relaxed_ && slower ? slower_by_bound : complete ? none_faster : only_as_chain;
      case seen:
      case seen_and_proved:
        return complete ? seen_and_proved : slower ? seen : only_as_chain;
      case none_faster:
        return complete ? none_faster : only_as_chain;
      default:
        return rejected.why;
    }
  }

  // `ratio` is the step of the chain's best plan over that of the graph's.
  void forget_proofs(double ratio, SearchResult& result) const {
    for (RejectedClass& each : result.classes) {
      each.time_ratio *= ratio;
      each.why = known_of(each, result.complete);
    }
    if (result.complete) return;
    std::int64_t slower = 0;
    for (const Rejection& rejection : result.rejected) slower += rejection.reason == RejectedAs::too_slow ? rejection.count : 0;
    std::erase_if(result.rejected, [](const Rejection& rejection) { return rejection.reason == RejectedAs::too_slow; });
    const auto unproved = std::ranges::find(result.rejected, RejectedAs::unproved, &Rejection::reason);
    if (unproved != result.rejected.end())
      unproved->count += slower;
    else if (slower > 0)
      result.rejected.push_back({RejectedAs::unproved, slower});
    if (result.stages_per_device.end == StagesPerDevice::End::slower) result.stages_per_device.end = StagesPerDevice::End::not_reached;
  }

  SearchResult result_of(SearchResult chain) {
    SearchResult result = std::move(chain);
    const std::vector<Candidate> of_chain = std::move(result.ranked);
    const double chain_bound_s = relaxed_ ? result.lower_bound_s : 0;
    result.ranked = evaluator_.ranking().ranked();
    result.simulated = evaluator_.result().simulated;
    result.worked = space_.most_actions - evaluator_.work_left();
    if (result.ranked.empty()) return result;
    for (NotExecutable& plan : result.not_executable) plan.candidate.prediction = predict(plan.candidate.plan, cost_);
    const Candidate& best = result.ranked.front();
    std::erase_if(result.not_executable,
                  [&](const NotExecutable& plan) { return plan.candidate.prediction.step_s >= best.prediction.step_s; });
    // The chain's bound covers the devices that schedules give to stages. A plan with other devices is in a larger space.
    const bool in_chain = std::ranges::any_of(of_chain, [&](const Candidate& other) { return same_places(other.plan, best.plan); });
    const double bound_s = std::max(in_chain ? chain_bound_s : 0, static_cast<double>(graph_bound_ns(space_, cost_)) * 1e-9);
    const bool covered = !fuses_weights(best.plan) && !offloads(best.plan);
    result.lower_bound_s = covered ? std::min(bound_s, best.prediction.step_s) : 0;
    result.complete = covered && bound_s >= best.prediction.step_s;
    forget_proofs(of_chain.empty() ? 1 : of_chain.front().prediction.step_s / best.prediction.step_s, result);
    find_places(result);
    if (space_.improved) space_.improved(best);
    return result;
  }

  static bool same_places(const Plan& a, const Plan& b) {
    const auto devices = [](const Plan& plan) {
      std::vector<std::vector<int>> of;
      for (const Stage& stage : plan.stages) of.push_back(stage.devices);
      return of;
    };
    return a.devices == b.devices && devices(a) == devices(b);
  }

  // The best plan in half the memory is the chain's, as far as it is still listed.
  void find_places(SearchResult& result) const {
    result.best_pipeline = result.best_half_memory = -1;
    const std::int64_t half = half_of_one_device(space_, cost_);
    for (std::size_t k = 0; k < result.ranked.size(); ++k) {
      const Candidate& candidate = result.ranked[k];
      if (candidate.plan.num_stages() < 2) continue;
      if (result.best_pipeline < 0) result.best_pipeline = static_cast<int>(k);
      if (result.best_half_memory < 0 && most_bytes(candidate) <= half) result.best_half_memory = static_cast<int>(k);
    }
  }

  const SearchSpace& space_;
  const CostModel& cost_;
  std::vector<std::int64_t> caps_;
  Evaluator evaluator_;
  std::vector<int> counts_;
  std::set<GraphState> seen_;
  bool relaxed_ = false;  ///< the chain's bounds hold for the graph
};

}  // namespace

SearchResult search_graph(const SearchSpace& space, const CostModel& cost) {
  return GraphSearch(space, cost).run();
}

std::vector<Candidate> graph_front(const SearchSpace& space, const CostModel& cost, double share, const std::vector<Candidate>& known) {
  std::vector<Candidate> all = memory_front(space, CostModel(as_chain(cost.profile())), share, {});
  for (Candidate& candidate : all) candidate.prediction = predict(candidate.plan, cost);
  all.insert(all.end(), known.begin(), known.end());
  std::ranges::stable_sort(all, {}, [](const Candidate& candidate) { return candidate.prediction.step_s; });
  std::vector<Candidate> front;
  for (Candidate& candidate : all)
    if (front.empty() || fits_below(front.back(), candidate, share)) front.push_back(std::move(candidate));
  return front;
}

}  // namespace mptune::planner
