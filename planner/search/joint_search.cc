#include "planner/search/joint_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "planner/partition/family.h"
#include "planner/recompute/smallest_peak.h"
#include "planner/schedule/schedule.h"
#include "planner/schedule/schedule_info.h"
#include "planner/simulate/operations.h"
#include "planner/simulate/schedule_costs.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();
constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kSeeds = 48;
// Nodes that a family may visit in the first round, and their growth per round. The families with the smallest bounds get kFavouredFactor
// times as many, since the proof needs them, and they often hold the best plan.
constexpr std::int64_t kFirstNodes = 250;
constexpr std::int64_t kGrowth = 16;
constexpr std::int64_t kMostNodes = std::int64_t{1} << 40;
constexpr int kFavouredFamilies = 4;
constexpr std::int64_t kFavouredFactor = 64;
constexpr std::int64_t kNodesPerAction = 2;  // nodes (partial plans) that cost as much as a simulated action
constexpr std::int64_t kSetUps = 3;          // set-up cost of a search of cuts, in simulated plans
constexpr std::int64_t kAlternativeNodes = 20'000;
constexpr std::int64_t kBeyondNodes = 4'000;
constexpr int kMostListSchedules = 6;  // families of list schedules that beyond() evaluates: generating their rows takes milliseconds
constexpr std::int64_t kBeyondWorkDivisor = 4;  // beyond() gets 1 / this of the work that is left
constexpr std::int64_t kProofWorkDivisor = 2;   // beside families without a proof, the others get 1 / this of the work
constexpr int kMostListed = 4096;
// Searches for plans that fit in pieces get 1 / this of all work, and each family gets 1 / this of what is then left of it.
constexpr std::int64_t kPiecesWorkDivisor = 4;
constexpr std::int64_t kNodesPerRange = 8;  // nodes of such a search for each range of layers that it tries
// A step with all stages recomputed takes at most about this many times the step without recomputation.
constexpr double kRecomputedRatio = 1.5;

std::int64_t whole_ns(double seconds) {
  return std::isfinite(seconds) ? std::llround(seconds * 1e9) : kUnlimited;
}

std::int64_t lower_ns_of(const FamilyState& state) {
  return state.proof.lower_ns;
}

std::vector<int> cuts_of(const Plan& plan) {
  std::vector<int> cuts;
  for (std::size_t s = 1; s < plan.stages.size(); ++s) cuts.push_back(plan.stages[s].first_layer);
  return cuts;
}

// True for list schedules: a plan's costs decide its rows, and so whether it splits its backward.
bool decided_by_rows(const PlanFamily& family) {
  return schedule_info(family.schedule).rows_from == RowsFrom::search;
}

}  // namespace

JointSearch::JointSearch(const SearchSpace& space, const CostModel& cost, std::vector<std::int64_t> caps, int keep, RatedFamilies& rated)
    : space_(space),
      cost_(cost),
      caps_(std::move(caps)),
      rated_(rated),
      choices_(space, cost, caps_),
      evaluator_(space, cost, keep),
      keep_(keep),
      pieces_work_left_(space.most_actions / kPiecesWorkDivisor) {}

void JointSearch::list_families() {
  if (!states_.empty()) return;
  for (PlanFamily& family : choices_.pipelines()) {
    if (only_replicated_ && family.replicated() != *only_replicated_) continue;
    more_than_lists_ |= family.executable() && !family.helping && schedule_info(family.schedule).rows_from != RowsFrom::search;
    states_.push_back(state_of(std::move(family)));
  }
}

void JointSearch::note(FamilyState& state, double step_s, const std::vector<int>& cuts) {
  if (step_s < state.best_s) {
    state.best_s = step_s;
    state.best_cuts = cuts;
  }
  ++state.seen;
}

void JointSearch::try_cuts(FamilyState& state, const std::vector<int>& cuts) {
  Plan plan = state.family.plan(space_, cuts, cost_.layers());
  choices_.set_recompute(plan);
  const std::vector<std::int64_t> caps = state.family.caps(caps_);
  schedule_plan(plan, state.family.schedule, cost_, caps);
  evaluator_.worked((schedule_info(state.family.schedule).relative_cost - 1) * 2 * plan.num_stages() * plan.num_microbatches(), 0);
  if (state.family.helping) evaluator_.worked(std::int64_t{cost_.layers()} * plan.num_microbatches(), 0);
  note(state, evaluator_.evaluate(Parallelism::pipeline, std::move(plan), caps), cuts);
}

void JointSearch::try_given_cuts() {
  for (FamilyState& state : states_) state.family.plans = 0;
  for (const std::vector<int>& cuts : space_.cuts) {
    for (FamilyState& state : states_) {
      if (static_cast<int>(cuts.size()) + 1 != state.family.stages()) continue;
      ++state.family.plans;
      if (!evaluator_.spent()) try_cuts(state, cuts);
    }
  }
  for (FamilyState& state : states_) state.proof.solved = state.seen == state.family.plans;
}

// Evaluates a promising plan of each family first: once good plans are known, bounds exclude most of the space.
void JointSearch::try_seeds() {
  int tried = 0;
  for (FamilyState& state : states_) {
    if (!state.family.executable() || set_aside(state) || state.family.seed.empty() || state.proof.lower_ns > threshold_ns(Goal::best))
      continue;
    if (tried++ == kSeeds) return;
    for (const std::vector<int>& cuts : choices_.seeds(state.family)) {
      if (evaluator_.spent()) return;
      try_cuts(state, cuts);
    }
  }
}

double JointSearch::threshold_s(Goal goal) const {
  const Ranking& ranking = evaluator_.ranking();
  if (goal == Goal::alternatives) return ranking.threshold();
  const Candidate* fastest = goal == Goal::fastest ? ranking.fastest() : ranking.fastest_of_several_stages();
  return std::min(space_.longest_s, fastest == nullptr ? kNever : fastest->prediction.step_s);
}

std::int64_t JointSearch::threshold_ns(Goal goal) const {
  return whole_ns(threshold_s(goal));
}

// Searches families in the order of their bounds, with more and more effort. A family without a plan faster than all others may still hold
// the best pipeline.
void JointSearch::search_cuts(Goal goal, std::int64_t least_left) {
  const auto enough = [&] { return evaluator_.spent() || evaluator_.work_left() < least_left; };
  bool unsolved = true;
  for (std::int64_t nodes = kFirstNodes; unsolved && !enough(); nodes = std::min(nodes * kGrowth, kMostNodes)) {
    unsolved = false;
    int favoured = kFavouredFamilies;
    std::ranges::stable_sort(states_, {}, lower_ns_of);
    for (FamilyState& state : states_) {
      if (state.proof.solved || state.proof.exhausted || !state.family.executable() || set_aside(state)) continue;
      state.proof.solved = state.proof.lower_ns > threshold_ns(Goal::best);
      if (state.proof.lower_ns > threshold_ns(goal)) continue;
      if (enough()) break;
      Attempt attempt{goal, favoured-- > 0 ? nodes * kFavouredFactor : nodes, state.proof};
      solve(state, attempt);
      unsolved |= !attempt.proof.solved && !attempt.proof.exhausted;
      state.proof = attempt.proof;
      state.proof.solved &= threshold_ns(goal) == threshold_ns(Goal::best);
    }
  }
  if (threshold_ns(goal) == threshold_ns(Goal::best)) return;
  for (FamilyState& state : states_) state.proof.exhausted = false;
}

void JointSearch::pipelines() {
  list_families();
  if (!space_.cuts.empty()) return try_given_cuts();
  first_lists();
  try_seeds();
  sharpen_all();
  const bool others =
      std::ranges::any_of(states_, [this](const FamilyState& state) { return state.family.executable() && set_aside(state); });
  const std::int64_t least_left = others ? evaluator_.work_left() - evaluator_.work_left() / kProofWorkDivisor : -1;
  search_cuts(Goal::fastest, least_left);
  search_cuts(Goal::best, least_left);
  helping();
  more_stages();
  std::ranges::stable_sort(states_, {}, lower_ns_of);
  lists();
}

void JointSearch::alternatives() {
  if (!space_.cuts.empty() || keep_ < 2) return help_ranked();
  std::ranges::stable_sort(states_, {}, lower_ns_of);
  for (FamilyState& state : states_) {
    if (evaluator_.spent()) return help_ranked();
    const bool searched = state.proof.solved || state.proof.exhausted;
    if (!searched || !state.fits || set_aside(state) || state.family.bound_ns > threshold_ns(Goal::alternatives)) continue;
    Attempt attempt{Goal::alternatives, kAlternativeNodes, state.proof};
    do {
      attempt.proof.solved = attempt.proof.exhausted = false;
      solve(state, attempt);
    } while (!attempt.proof.solved && !attempt.proof.exhausted && memory_chooses(state) && state.listed < kMostListed &&
             !evaluator_.spent());
  }
  help_ranked();
}

bool JointSearch::memory_chooses(const FamilyState& state) const {
  return space_.recompute.empty() && std::ranges::any_of(state.family.caps(caps_), [](std::int64_t cap) { return cap > 0; });
}

// Only the least excess of all families matters, and no excess matters where a plan fits.
std::int64_t JointSearch::least_excess_known() {
  if (evaluator_.ranking().fastest() != nullptr) return 1;
  const std::int64_t known = evaluator_.result().smallest_excess_bytes;
  return known > 0 ? known : kUnlimited;
}

PartitionProblem JointSearch::problem_of(const FamilyState& state, Goal goal, std::int64_t most_nodes) {
  const Plan plan = state.family.plan(space_, equal_cuts(cost_.layers(), state.family.stages()), cost_.layers());
  PartitionProblem problem;
  problem.devices = plan.devices;
  for (const Stage& stage : plan.stages) problem.stages.push_back(stage.devices);
  problem.memory_bytes = state.family.caps(caps_);
  problem.microbatch_sizes = state.family.sizes;
  problem.schedule = state.family.schedule;
  problem.recomputed = recomputed_stages(space_.recompute, state.family.stages());
  problem.keep = goal == Goal::alternatives ? keep_ : 1;
  problem.longest_ns = threshold_ns(goal);
  // Where rows depend on costs, every node may need a simulation. No family may take more than a quarter of the work that is left.
  const std::int64_t relative_cost = schedule_info(state.family.schedule).relative_cost;
  const std::int64_t actions = 2 * static_cast<std::int64_t>(problem.stages.size() * problem.microbatch_sizes.size());
  if (relative_cost > 1) most_nodes = std::min(most_nodes / relative_cost, evaluator_.work_left() / 4 / (actions * relative_cost));
  problem.most_nodes = std::max<std::int64_t>(64, most_nodes);
  problem.stop = [this] { return evaluator_.stopped(); };
  problem.least_excess_known = least_excess_known();
  return problem;
}

PartitionResult JointSearch::run(const FamilyState& state, PartitionProblem& problem) {
  problem.known = &rated_.of(problem);
  PartitionResult result = partition(problem, cost_);
  const std::int64_t plan = problem.recompute_for_memory ? 2 : 1;  // counting a plan's peaks takes as long as simulating it
  const std::int64_t actions = 2 * plan * static_cast<std::int64_t>(problem.stages.size() * problem.microbatch_sizes.size());
  evaluator_.worked(
      result.nodes / kNodesPerAction + (kSetUps + result.simulated) * actions * schedule_info(state.family.schedule).relative_cost,
      result.simulated);
  return result;
}

void JointSearch::solve(FamilyState& state, Attempt& attempt) {
  if (memory_chooses(state)) return solve_with_memory(state, attempt);
  PartitionProblem problem = problem_of(state, attempt.goal, attempt.most_nodes);
  PartitionResult result = run(state, problem);
  for (PartitionedPlan& found : result.best) {
    const std::vector<int> cuts = cuts_of(found.plan);
    note(state, evaluator_.evaluate(Parallelism::pipeline, std::move(found.plan), state.family.caps(caps_)), cuts);
  }
  attempt.proof.lower_ns = std::max(attempt.proof.lower_ns, result.lower_bound_ns);
  attempt.proof.solved = result.complete;
  if (result.lower_bound_ns != PartitionResult::kNoPlan) return;
  state.fits = false;
  note_excess(result, problem);
}

// Recomputation makes no plan faster. So plans are listed by their step without caps and evaluated with caps, until the step without caps
// exceeds the best one. This is no proof where rows depend on caps (rows made with and without caps are evaluated), nor where copies queue
// (a longer backward may improve their order).
void JointSearch::solve_with_memory(FamilyState& state, Attempt& attempt) {
  PartitionProblem problem = problem_of(state, attempt.goal, attempt.most_nodes);
  problem.memory_bytes.clear();
  problem.keep = std::max(problem.keep, state.listed);
  const Family family(problem, cost_);
  const Operations operations = list_operations(family.any_plan(), cost_);
  problem.longest_ns = threshold_ns(attempt.goal);
  PartitionResult result = run(state, problem);
  bool all = result.complete && static_cast<int>(result.best.size()) < problem.keep;
  const std::int64_t reached_ns = result.complete && !result.best.empty() ? result.best.back().step_ns : result.lower_bound_ns;
  for (PartitionedPlan& found : result.best) {
    if (found.step_ns > threshold_ns(attempt.goal)) {
      all = result.complete;
      break;
    }
    try_found(state, std::move(found.plan), family.rows_are_fixed());
  }
  const bool proves = family.rows_are_fixed() && !operations.queues;
  FamilyProof& proof = attempt.proof;
  if (proves) proof.lower_ns = std::max({proof.lower_ns, reached_ns, all ? threshold_ns(attempt.goal) : 0});
  (proves ? proof.solved : proof.exhausted) = all;
  state.listed = std::min(kMostListed, state.listed * 8);
  if (!all && !state.asked_recomputed) ask_recomputed(state, attempt, family.rows_are_fixed());
}

void JointSearch::try_found(FamilyState& state, Plan plan, bool rows_are_fixed) {
  const std::vector<std::int64_t> caps = state.family.caps(caps_);
  const std::vector<int> cuts = cuts_of(plan);
  double step_s = kNever;
  if (!rows_are_fixed) {
    Plan remade = plan;
    schedule_plan(remade, state.family.schedule, cost_, caps);
    evaluator_.worked((schedule_info(state.family.schedule).relative_cost - 1) * 2 * plan.num_stages() * plan.num_microbatches(), 0);
    if (remade.actions != plan.actions) step_s = evaluator_.evaluate(Parallelism::pipeline, std::move(remade), caps);
  }
  note(state, std::min(step_s, evaluator_.evaluate(Parallelism::pipeline, std::move(plan), caps)), cuts);
}

// Searches with whole stages recomputed. If the fastest cuts do not fit, this often finds good ones. If no plan fits then, some plans may
// fit with pieces of stages recomputed, or it is proved that none does with the sets of layers that smallest_peak() knows.
void JointSearch::ask_recomputed(FamilyState& state, Attempt& attempt, bool rows_are_fixed) {
  state.asked_recomputed = true;
  PartitionProblem problem = problem_of(state, attempt.goal, attempt.most_nodes);
  problem.recompute_for_memory = true;
  problem.longest_ns = whole_ns(threshold_s(attempt.goal) * kRecomputedRatio);
  if (!rows_are_fixed || state.family.virtual_stages > 1) {  // every node may need a simulation, and peaks that take as long
    const std::int64_t actions = 4 * state.family.stages() * std::ssize(state.family.sizes) * schedule_info(problem.schedule).relative_cost;
    problem.most_nodes = std::max<std::int64_t>(64, std::min(problem.most_nodes, evaluator_.work_left() / 4 / actions));
  }
  const PartitionResult whole = try_recomputed(state, problem, rows_are_fixed);
  if (whole.lower_bound_ns != PartitionResult::kNoPlan) return;
  note_excess(whole, problem);
  ask_in_pieces(state, attempt, problem, rows_are_fixed);
}

void JointSearch::note_excess(const PartitionResult& result, const PartitionProblem& problem) {
  if (result.smallest_excess_device >= 0)
    evaluator_.note_excess(result.smallest_excess_bytes, problem.devices[as_index(result.smallest_excess_device)]);
}

// A family of which little was tried is left without a proof.
void JointSearch::ask_in_pieces(FamilyState& state, Attempt& attempt, PartitionProblem& problem, bool rows_are_fixed) {
  const std::int64_t row = 2 * std::ssize(state.family.sizes);
  const std::int64_t range = kPeaksInPieces * (kActionsPerPeak + row + cost_.layers());
  problem.most_in_pieces = std::max<std::int64_t>(1, pieces_work_left_ / kPiecesWorkDivisor / range);
  problem.most_nodes = std::min(problem.most_nodes, kNodesPerRange * problem.most_in_pieces);
  const PartitionResult result = try_recomputed(state, problem, rows_are_fixed);
  evaluator_.worked(result.in_pieces * range, 0);
  pieces_work_left_ = std::max<std::int64_t>(0, pieces_work_left_ - result.in_pieces * range);
  note_excess(result, problem);
  if (!result.best.empty()) return;
  state.fits = !rows_are_fixed;
  const bool proved = rows_are_fixed && result.lower_bound_ns == PartitionResult::kNoPlan;
  (proved ? attempt.proof.solved : attempt.proof.exhausted) = true;
}

PartitionResult JointSearch::try_recomputed(FamilyState& state, PartitionProblem& problem, bool rows_are_fixed) {
  PartitionResult result = run(state, problem);
  for (PartitionedPlan& found : result.best) {
    for (Stage& stage : found.plan.stages) stage.recompute = {};
    try_found(state, std::move(found.plan), rows_are_fixed);
  }
  return result;
}

void JointSearch::beyond() {
  const Candidate* fastest = evaluator_.ranking().fastest();
  if (!space_.cuts.empty() || fastest == nullptr || !space_.look_beyond) return;
  const double fastest_s = fastest->prediction.step_s;
  int list_schedules = 0;
  const std::int64_t least_left = evaluator_.work_left() - evaluator_.work_left() / kBeyondWorkDivisor;
  for (FamilyState& state : states_) {
    if (evaluator_.spent() || evaluator_.work_left() < least_left) return;
    if (state.family.executable() || state.family.seed.empty()) continue;
    if (decided_by_rows(state.family) && ++list_schedules > kMostListSchedules) continue;
    const auto known = evaluator_.beyond().find(state.family.schedule);
    const double known_s = known == evaluator_.beyond().end() ? kNever : known->second.candidate.prediction.step_s;
    const double longest_s = std::min(fastest_s, known_s) - 1e-9;
    if (state.proof.lower_ns <= whole_ns(longest_s)) solve_beyond(state, longest_s);
  }
}

void JointSearch::solve_beyond(FamilyState& state, double longest_s) {
  try_cuts(state, state.family.seed);
  if (decided_by_rows(state.family)) return;
  PartitionProblem problem = problem_of(state, Goal::best, kBeyondNodes);
  problem.recompute_for_memory = space_.recompute.empty();
  problem.longest_ns = whole_ns(std::min(longest_s, state.best_s));
  PartitionResult result = run(state, problem);
  for (PartitionedPlan& found : result.best) {
    if (problem.recompute_for_memory)
      for (Stage& stage : found.plan.stages) stage.recompute = {};
    const std::vector<int> cuts = cuts_of(found.plan);
    note(state, evaluator_.evaluate(Parallelism::pipeline, std::move(found.plan), state.family.caps(caps_)), cuts);
  }
  state.proof.lower_ns = std::max(state.proof.lower_ns, result.lower_bound_ns);
  state.fits = result.lower_bound_ns != PartitionResult::kNoPlan;
}

double JointSearch::lower_bound_s() const {
  double least = kNever;
  if (const Candidate* fastest = evaluator_.ranking().fastest()) least = fastest->prediction.step_s;
  for (const FamilyState& state : states_)
    if (state.family.executable() && !state.proof.solved) least = std::min(least, static_cast<double>(state.proof.lower_ns) * 1e-9);
  if (choices_.unlisted_plans() > 0) least = std::min(least, static_cast<double>(choices_.unlisted_bound_ns()) * 1e-9);
  return least;
}

void JointSearch::count_rejected() {
  for (const FamilyState& state : states_) {
    if (state.family.rows_decide && state.family.bound_ns <= threshold_ns(Goal::best))
      evaluator_.reject(RejectedAs::rows_decide, std::max<std::int64_t>(0, state.family.plans - state.seen));
    if (!state.family.executable()) continue;
    const bool reached = state.proof.solved || state.family.bound_ns > threshold_ns(Goal::best);
    evaluator_.reject(!state.fits             ? RejectedAs::too_large
                      : reached               ? RejectedAs::too_slow
                      : state.proof.exhausted ? RejectedAs::unproved
                                              : RejectedAs::not_reached,
                      std::max<std::int64_t>(0, state.family.plans - state.seen));
  }
  evaluator_.reject(RejectedAs::not_reached, choices_.unlisted_plans());
}

}  // namespace mptune::planner
