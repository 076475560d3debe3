#include "planner/search/joint/family_solver.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "planner/partition/family.h"
#include "planner/recompute/smallest_peak.h"
#include "planner/schedule/schedule_info.h"
#include "planner/search/make_plan.h"
#include "planner/search/search_budget.h"
#include "planner/simulate/operations.h"
#include "profiler/base/index.h"

namespace mptune::planner {

FamilySolver::FamilySolver(FamilyTable& table, RatedFamilies& rated, int keep)
    : table_(table),
      evaluator_(table.evaluator()),
      rated_(rated),
      keep_(keep),
      pieces_work_left_(table.space().most_actions / SearchBudget::kPiecesWorkDivisor) {}

bool FamilySolver::memory_chooses(const FamilyState& state) const {
  return table_.space().recompute.empty() &&
         std::ranges::any_of(state.family.caps(table_.caps()), [](std::int64_t cap) { return cap > 0; });
}

// Only the least excess of all families matters, and no excess matters where a plan fits.
std::int64_t FamilySolver::least_excess_known() {
  if (evaluator_.ranking().fastest() != nullptr) return 1;
  const std::int64_t known = evaluator_.result().smallest_excess_bytes;
  return known > 0 ? known : std::numeric_limits<std::int64_t>::max();
}

PartitionProblem FamilySolver::problem_of(const FamilyState& state, SearchGoal goal, std::int64_t most_nodes) {
  const int layers = table_.cost().layers();
  const Plan plan = state.family.plan(table_.space(), equal_cuts(layers, state.family.stages()), layers);
  PartitionProblem problem;
  problem.devices = plan.devices;
  for (const Stage& stage : plan.stages) problem.stages.push_back(stage.devices);
  problem.memory_bytes = state.family.caps(table_.caps());
  problem.microbatch_sizes = state.family.sizes;
  problem.schedule = state.family.schedule;
  problem.recomputed = recomputed_stages(table_.space().recompute, state.family.stages());
  problem.keep = goal == SearchGoal::alternatives ? keep_ : 1;
  problem.longest_ns = table_.threshold_ns(goal);
  // Where rows depend on costs, every node may need a simulation.
  const std::int64_t relative_cost = schedule_info(state.family.schedule).relative_cost;
  const std::int64_t actions = 2 * static_cast<std::int64_t>(problem.stages.size() * problem.microbatch_sizes.size());
  const std::int64_t most_work = evaluator_.work_left() / SearchBudget::kSlowRowsWorkDivisor;
  if (relative_cost > 1) most_nodes = std::min(most_nodes / relative_cost, most_work / (actions * relative_cost));
  problem.most_nodes = std::max(SearchBudget::kLeastNodes, most_nodes);
  problem.stop = [this] { return evaluator_.stopped(); };
  problem.least_excess_known = least_excess_known();
  return problem;
}

PartitionResult FamilySolver::run(const FamilyState& state, PartitionProblem& problem) {
  problem.known = &rated_.of(problem);
  PartitionResult result = partition(problem, table_.cost());
  const std::int64_t plan = problem.recompute_for_memory ? 2 : 1;  // counting a plan's peaks takes as long as simulating it
  const std::int64_t actions = 2 * plan * static_cast<std::int64_t>(problem.stages.size() * problem.microbatch_sizes.size());
  const std::int64_t relative_cost = schedule_info(state.family.schedule).relative_cost;
  evaluator_.worked(result.nodes / SearchBudget::kNodesPerAction + (SearchBudget::kSetUps + result.simulated) * actions * relative_cost,
                    result.simulated);
  return result;
}

void FamilySolver::solve(FamilyState& state, Attempt& attempt) {
  if (memory_chooses(state)) return solve_with_memory(state, attempt);
  PartitionProblem problem = problem_of(state, attempt.goal, attempt.most_nodes);
  PartitionResult result = run(state, problem);
  for (PartitionedPlan& found : result.best) table_.try_plan(state, std::move(found.plan));
  attempt.proof.lower_ns = std::max(attempt.proof.lower_ns, result.lower_bound_ns);
  attempt.proof.solved = result.complete;
  if (result.lower_bound_ns != PartitionResult::kNoPlan) return;
  state.fits = false;
  note_excess(result, problem);
}

// Recomputation makes no plan faster. So plans are listed by their step without caps and evaluated with caps, until the step without caps
// exceeds the best one. This is no proof where rows depend on caps (rows made with and without caps are evaluated), nor where copies queue
// (a longer backward may improve their order).
void FamilySolver::solve_with_memory(FamilyState& state, Attempt& attempt) {
  PartitionProblem problem = problem_of(state, attempt.goal, attempt.most_nodes);
  problem.memory_bytes.clear();
  problem.keep = std::max(problem.keep, state.listed);
  const Family family(problem, table_.cost());
  const Operations operations = list_operations(family.any_plan(), table_.cost());
  problem.longest_ns = table_.threshold_ns(attempt.goal);
  PartitionResult result = run(state, problem);
  bool all = result.complete && static_cast<int>(result.best.size()) < problem.keep;
  const std::int64_t reached_ns = result.complete && !result.best.empty() ? result.best.back().step_ns : result.lower_bound_ns;
  for (PartitionedPlan& found : result.best) {
    if (found.step_ns > table_.threshold_ns(attempt.goal)) {
      all = result.complete;
      break;
    }
    try_found(state, std::move(found.plan), family.rows_are_fixed());
  }
  const bool proves = family.rows_are_fixed() && !operations.queues;
  FamilyProof& proof = attempt.proof;
  if (proves) proof.lower_ns = std::max({proof.lower_ns, reached_ns, all ? table_.threshold_ns(attempt.goal) : 0});
  (proves ? proof.solved : proof.exhausted) = all;
  state.listed = std::min(SearchBudget::kMostListed, state.listed * SearchBudget::kListedGrowth);
  if (!all && !state.asked_recomputed) ask_recomputed(state, attempt, family.rows_are_fixed());
}

// Searches with whole stages recomputed. If the fastest cuts do not fit, this often finds good ones. If no plan fits then, some plans may
// fit with pieces of stages recomputed, or it is proved that none does with the sets of layers that smallest_peak() knows.
void FamilySolver::ask_recomputed(FamilyState& state, Attempt& attempt, bool rows_are_fixed) {
  state.asked_recomputed = true;
  PartitionProblem problem = problem_of(state, attempt.goal, attempt.most_nodes);
  problem.recompute_for_memory = true;
  problem.longest_ns = whole_ns(table_.threshold_s(attempt.goal) * SearchBudget::kRecomputedRatio);
  if (!rows_are_fixed || state.family.virtual_stages > 1) {  // every node may need a simulation, and peaks that take as long
    const std::int64_t actions = 4 * state.family.stages() * std::ssize(state.family.sizes) * schedule_info(problem.schedule).relative_cost;
    const std::int64_t most_nodes = evaluator_.work_left() / SearchBudget::kSlowRowsWorkDivisor / actions;
    problem.most_nodes = std::max(SearchBudget::kLeastNodes, std::min(problem.most_nodes, most_nodes));
  }
  const PartitionResult whole = try_recomputed(state, problem, rows_are_fixed);
  if (whole.lower_bound_ns != PartitionResult::kNoPlan) return;
  note_excess(whole, problem);
  ask_in_pieces(state, attempt, problem, rows_are_fixed);
}

// A family of which little was tried is left without a proof.
void FamilySolver::ask_in_pieces(FamilyState& state, Attempt& attempt, PartitionProblem& problem, bool rows_are_fixed) {
  const std::int64_t row = 2 * std::ssize(state.family.sizes);
  const std::int64_t range = kPeaksInPieces * (kActionsPerPeak + row + table_.cost().layers());
  problem.most_in_pieces = std::max<std::int64_t>(1, pieces_work_left_ / SearchBudget::kPiecesWorkDivisor / range);
  problem.most_nodes = std::min(problem.most_nodes, SearchBudget::kNodesPerRange * problem.most_in_pieces);
  const PartitionResult result = try_recomputed(state, problem, rows_are_fixed);
  evaluator_.worked(result.in_pieces * range, 0);
  pieces_work_left_ = std::max<std::int64_t>(0, pieces_work_left_ - result.in_pieces * range);
  note_excess(result, problem);
  if (!result.best.empty()) return;
  state.fits = !rows_are_fixed;
  const bool proved = rows_are_fixed && result.lower_bound_ns == PartitionResult::kNoPlan;
  (proved ? attempt.proof.solved : attempt.proof.exhausted) = true;
}

PartitionResult FamilySolver::try_recomputed(FamilyState& state, PartitionProblem& problem, bool rows_are_fixed) {
  PartitionResult result = run(state, problem);
  for (PartitionedPlan& found : result.best) {
    for (Stage& stage : found.plan.stages) stage.recompute = {};
    try_found(state, std::move(found.plan), rows_are_fixed);
  }
  return result;
}

void FamilySolver::try_found(FamilyState& state, Plan plan, bool rows_are_fixed) {
  if (rows_are_fixed)
    table_.try_plan(state, std::move(plan));
  else
    table_.try_remade(state, std::move(plan));
}

void FamilySolver::note_excess(const PartitionResult& result, const PartitionProblem& problem) {
  if (result.smallest_excess_device >= 0)
    evaluator_.note_excess(result.smallest_excess_bytes, problem.devices[as_index(result.smallest_excess_device)]);
}

void FamilySolver::solve_beyond(FamilyState& state, double longest_s) {
  PartitionProblem problem = problem_of(state, SearchGoal::best, SearchBudget::kBeyondNodes);
  problem.recompute_for_memory = table_.space().recompute.empty();
  problem.longest_ns = whole_ns(std::min(longest_s, state.best_s));
  PartitionResult result = run(state, problem);
  for (PartitionedPlan& found : result.best) {
    if (problem.recompute_for_memory)
      for (Stage& stage : found.plan.stages) stage.recompute = {};
    table_.try_plan(state, std::move(found.plan));
  }
  state.proof.lower_ns = std::max(state.proof.lower_ns, result.lower_bound_ns);
  state.fits = result.lower_bound_ns != PartitionResult::kNoPlan;
}

}  // namespace mptune::planner
