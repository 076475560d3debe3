#include "planner/partition/cut_search.h"

#include <algorithm>
#include <limits>

#include "planner/partition/first_plans.h"
#include "planner/partition/path_mixture.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

constexpr std::int64_t kFirstPause = 4096;           // nodes; doubled after every narrowing of the windows
constexpr std::int64_t kFirstAttemptNodes = 24'000;  // nodes of the first attempt; then the bound is raised in steps
constexpr int kWorthAgain = 10;                      // windows are narrowed again while they lose at least 1 / this of their layers
constexpr double kGaps[] = {0.02, 0.01, 0.003};      // gaps that are proved one after another
constexpr int kMixtures = 3;                         // path mixtures tried per limit
constexpr int kMixtureRounds = 24;                   // reweighings per mixture
constexpr int kLayersPerNode = 16;                   // layers in a shortest path, of every stage, that cost as much as a node
constexpr int kNarrowedPerNode = 1024;               // layers, of every stage and path, whose windows are narrowed in the time of a node
constexpr int kStagesOfFreeRating = 128;  // squared stages from which rating cuts takes longer than a node: all paths are added up
constexpr int kGapDivisor = 256;          // bisection ends at a gap of 1 / this

}  // namespace

CutSearch::CutSearch(const PartitionProblem& problem, const CostModel& cost, const Family& family)
    : problem_(problem),
      cost_(cost),
      family_(family),
      rater_(problem, cost, family),
      effort_(problem),
      paths_(rater_.paths()),
      balance_(rater_.prices(), rater_.rows()),
      stages_(family.stages()),
      layers_(cost.layers()) {
  open_windows();
}

void CutSearch::open_windows() {
  allowed_.begins.resize(as_index(stages_) + 1);
  for (int s = 0; s <= stages_; ++s) {
    std::vector<int>& begins = allowed_.begins[as_index(s)];
    if (s == 0) begins = {0};
    if (s == stages_) begins = {layers_};
    for (int layer = s; s > 0 && layer <= layers_ - (stages_ - s) && s < stages_; ++layer)
      if (cost_.may_cut(layer)) begins.push_back(layer);
  }
  for (int s = 0; s < stages_; ++s) {
    std::vector<int> furthest(as_index(layers_) + 1, layers_);
    if (rater_.knows_memory()) furthest = rater_.furthest(s);
    allowed_.furthest.push_back(std::move(furthest));
    std::vector<int> nearest;
    for (int first = 0; first <= layers_; ++first) nearest.push_back(first + 1);
    allowed_.nearest.push_back(std::move(nearest));
  }
}

void CutSearch::bound_all() {
  paths_.refresh(allowed_);
  balance_.refresh(allowed_);
  std::int64_t least = balance_.rest(0, 0);
  for (int path = 0; path < paths_.paths(); ++path) least = std::max(least, paths_.rest(path, 0, 0));
  result_.lower_bound_ns = least < PathBounds::kFar ? least + rater_.step_cost_ns() : PartitionResult::kNoPlan;
}

// Narrows the windows until they lose few layers. Returns false if no plan within the limit is left.
bool CutSearch::narrow(std::int64_t limit_ns, Windows& windows) {
  for (int dropped = 1; dropped > 0;) {
    int left = 0;
    for (const std::vector<int>& begins : windows.begins) left += static_cast<int>(begins.size());
    dropped = paths_.narrow(limit_ns, windows);
    effort_.add(std::int64_t{paths_.paths()} * stages_ * layers_ / kNarrowedPerNode);
    if (windows.empty()) return false;
    if (dropped * kWorthAgain < left) break;
  }
  return true;
}

// Returns true if bounds alone prove that no plan stays within the limit. Alternates single-path and mixture bounds. The cuts that minimise
// a mixture are usually good plans, so they are rated, and their longest paths may become new bounds.
bool CutSearch::refute(std::int64_t limit_ns, Windows& windows) {
  PathMixture mixture(rater_.prices(), stages_);
  for (const Path& row : rater_.rows()) mixture.add(row);
  int learned = static_cast<int>(rater_.rows().size());
  for (int attempt = 0; attempt < kMixtures; ++attempt) {
    if (!narrow(limit_ns, windows)) return true;
    for (int round = 0; round < kMixtureRounds; ++round) {
      for (; learned < paths_.paths(); ++learned)
        if (paths_.path(learned).of == 1) mixture.add(paths_.path(learned));
      const std::optional<PathMixture::Least> least = mixture.least(windows);
      if (!least || least->ns * (1 - 1e-9) > static_cast<double>(limit_ns)) return true;
      effort_.add(1 + std::int64_t{stages_} * layers_ / kLayersPerNode);
      if (effort_.interrupted_before_plan()) return false;
      static_cast<void>(rater_.consider(least->cuts, rater_.best().enters_ns()));
      mixture.reweigh(*least, static_cast<double>(limit_ns));
    }
    paths_.add(mixture.best());
  }
  return !narrow(limit_ns, windows);
}

// Tries bounds before any plan is rated, if rating a plan costs a simulation and adds no path.
bool CutSearch::refuted_by_bounds(std::int64_t limit_ns) {
  if (rater_.learns()) return false;
  Windows windows = entering_;
  return limit_ns < PathBounds::kMostMixed && refute(limit_ns, windows);
}

// Raises the lower bound by bisection between it and the best plan: a limit that refute() excludes becomes the bound.
void CutSearch::raise_bound() {
  const auto reached = [this] { return rater_.best().empty() ? problem_.longest_ns : rater_.best().kept().front().step_ns; };
  std::int64_t high = reached();
  if (high >= PathBounds::kMostMixed) return;
  while (!effort_.ended() && high - result_.lower_bound_ns > high / kGapDivisor) {
    const std::int64_t middle = result_.lower_bound_ns + (high - result_.lower_bound_ns) / 2;
    Windows windows = allowed_;
    if (refute(middle - rater_.step_cost_ns(), windows))
      result_.lower_bound_ns = middle + 1;
    else
      high = std::min(middle, reached());
  }
}

// Visits every plan that could reach the aim. Returns false if it was interrupted or reached `most_nodes` first.
bool CutSearch::exhaust(const WalkAim& aim, std::int64_t most_nodes) {
  const std::int64_t last_node = most_nodes < PathBounds::kFar ? effort_.nodes() + most_nodes : PathBounds::kFar;
  // Plans too slow to tie with the last one kept are excluded here and in all later calls.
  if (rater_.best().full() && !narrow(rater_.best().kept().back().step_ns - rater_.step_cost_ns(), entering_)) return true;
  Windows windows = entering_;
  for (std::int64_t pause = kFirstPause;; pause *= 2) {
    if (!narrow(path_limit_ns(aim, rater_), windows)) return true;
    CutWalk walk(family_, rater_, effort_, balance_, aim, windows);
    const CutWalk::End end = walk.run(std::min(effort_.nodes() + pause, last_node));
    if (end == CutWalk::End::interrupted) return false;
    if (end == CutWalk::End::complete) return true;
    if (effort_.nodes() >= last_node) return false;
  }
}

// One attempt proves most families. For the others the bound is raised in steps, so that a search that is stopped keeps the last bound.
void CutSearch::prove() {
  if (exhaust({}, kFirstAttemptNodes)) {
    result_.complete = true;
  } else {
    raise_bound();
    for (const double gap : kGaps) {
      if (effort_.ended() || rater_.best().empty() || !exhaust({WalkAim::Goal::faster, gap}, PathBounds::kFar)) break;
      result_.lower_bound_ns = std::max(result_.lower_bound_ns, shortened_ns(rater_.best().kept().front().step_ns, gap) + 1);
    }
  }
  if (!result_.complete && !effort_.ended()) result_.complete = exhaust({}, PathBounds::kFar);
  if (result_.complete && rater_.best().full()) result_.complete = exhaust({WalkAim::Goal::tied, 0}, PathBounds::kFar);
}

PartitionResult CutSearch::run() {
  if (allowed_.empty()) {
    result_.complete = true;
    result_.lower_bound_ns = PartitionResult::kNoPlan;
    return std::move(result_);
  }
  bound_all();
  entering_ = allowed_;
  const std::int64_t limit_ns = path_limit_ns({}, rater_);
  if (!narrow(limit_ns, entering_) || refuted_by_bounds(limit_ns)) {
    result_.complete = true;
    return finish();
  }
  consider_first_plans(rater_, balance_, allowed_, static_cast<int>(problem_.microbatch_sizes.size()), [this] {
    effort_.add(std::max(1, stages_ * stages_ / kStagesOfFreeRating));
    return !effort_.interrupted_before_plan();
  });
  prove();
  return finish();
}

PartitionResult CutSearch::finish() {
  const std::vector<RatedCuts>& best = rater_.best().kept();
  if (best.empty()) {
    const CutRater::Excess excess = rater_.smallest_excess(allowed_);
    // Plans beyond `longest_ns` were not looked at: one of them may fit.
    const bool looked_at_all = result_.complete && problem_.longest_ns == std::numeric_limits<std::int64_t>::max();
    result_.complete = result_.complete && !rater_.ran_out_of_pieces();
    const bool none = excess.bytes > 0 && !rater_.ran_out_of_pieces() && (looked_at_all || rater_.knows_memory());
    if (none) result_.lower_bound_ns = PartitionResult::kNoPlan;
    if (none || !result_.complete) {
      result_.smallest_excess_bytes = excess.bytes;
      result_.smallest_excess_device = excess.device;
    }
    if (result_.complete && result_.lower_bound_ns != PartitionResult::kNoPlan)
      result_.lower_bound_ns = std::max(result_.lower_bound_ns, problem_.longest_ns + 1);
  } else if (result_.complete) {
    result_.lower_bound_ns = best.front().step_ns;
  }
  result_.nodes = effort_.nodes();
  result_.simulated = rater_.simulated();
  result_.in_pieces = rater_.in_pieces();
  for (const RatedCuts& kept : best)
    result_.best.push_back({family_.plan(kept.cuts, kept.recomputed), kept.step_ns, kept.copied_bytes, kept.peak_bytes});
  return std::move(result_);
}

}  // namespace mptune::planner
