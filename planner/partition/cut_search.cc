#include "mptune/planner/partition/cut_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "mptune/planner/partition/first_plans.h"
#include "mptune/planner/partition/path_mixture.h"

namespace mptune {
namespace {

constexpr std::int64_t kFirstPause = 4096;  // nodes, doubled after every narrowing of the windows
constexpr std::int64_t kDirectly = 24'000;  // nodes, before the bound is raised in steps
constexpr std::int64_t kProbeAfter = 16;
constexpr int kWorthAgain = 10;  // windows are narrowed again while they lose at least one in so many layers
constexpr double kSteps[] = {0.02, 0.01, 0.003};
constexpr std::int64_t kNodesPerQuestion = 64;
constexpr int kMixtures = 3;         // path mixtures tried per limit
constexpr int kMixtureRounds = 24;   // of reweighing, per mixture
constexpr int kRangesPerNode = 128;  // of a shortest path
constexpr int kFinest = 256;         // a bound is raised in steps of one part of this many

std::int64_t shortened(std::int64_t ns, double gap) {
  return static_cast<std::int64_t>(std::floor(static_cast<double>(ns) * (1 - gap))) - 1;
}

}  // namespace

CutSearch::CutSearch(const PartitionProblem& problem, const CostModel& cost, const Family& family)
    : problem_(problem),
      cost_(cost),
      family_(family),
      rater_(problem, cost, family),
      paths_(rater_.paths()),
      balance_(rater_.prices(), rater_.rows()),
      stages_(family.stages()),
      layers_(cost.layers()) {
  open_windows();
}

void CutSearch::open_windows() {
  allowed_.begins.resize(static_cast<std::size_t>(stages_) + 1);
  for (int s = 0; s <= stages_; ++s) {
    std::vector<int>& begins = allowed_.begins[static_cast<std::size_t>(s)];
    if (s == 0) begins = {0};
    if (s == stages_) begins = {layers_};
    for (int layer = s; s > 0 && layer <= layers_ - (stages_ - s) && s < stages_; ++layer) {
      if (cost_.may_cut(layer)) begins.push_back(layer);
    }
  }
  for (int s = 0; s < stages_; ++s) {
    std::vector<int> furthest(static_cast<std::size_t>(layers_) + 1, layers_);
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

bool CutSearch::interrupted() {
  if (result_.nodes > problem_.most_nodes) ended_ = true;
  if (!ended_ && problem_.stop && result_.nodes % kNodesPerQuestion == 0 && problem_.stop()) ended_ = true;
  return ended_;
}

// Before a plan is timed. Timing takes long enough to ask every time.
bool CutSearch::interrupted_before_plan() {
  ended_ = ended_ || result_.nodes > problem_.most_nodes || (problem_.stop && problem_.stop());
  return ended_;
}

bool CutSearch::may_rate() {
  ++result_.nodes;
  return !interrupted_before_plan();
}

void CutSearch::set_limit() {
  const BestCuts& best = rater_.best();
  std::int64_t limit = goal_ == Goal::tied ? best.kept().back().step_ns : best.enters_ns();
  if (gap_ > 0 && !best.empty()) limit = std::min(limit, shortened(best.kept().front().step_ns, gap_));
  limit_ns_ = std::min(limit - rater_.step_cost_ns(), PathBounds::kFar - 1);
}

// False if no plan is left within the limit.
bool CutSearch::narrow(Windows& windows) {
  for (int dropped = 1; dropped > 0;) {
    int left = 0;
    for (const std::vector<int>& begins : windows.begins) left += static_cast<int>(begins.size());
    dropped = paths_.narrow(limit_ns_, windows);
    if (windows.empty()) return false;
    if (dropped * kWorthAgain < left) break;
  }
  return true;
}

// True if bounds alone prove that no plan keeps to the limit. Path mixtures and single paths narrow the windows in turn. The cuts on which
// a mixture is shortest are often good plans; timing them adds further paths.
bool CutSearch::refute(Windows& windows) {
  PathMixture mixture(rater_.prices(), stages_);
  for (const Path& row : rater_.rows()) mixture.add(row);
  int learned = static_cast<int>(rater_.rows().size());
  for (int attempt = 0; attempt < kMixtures; ++attempt) {
    if (!narrow(windows)) return true;
    for (int round = 0; round < kMixtureRounds; ++round) {
      for (; learned < paths_.paths(); ++learned) {
        if (paths_.path(learned).of == 1) mixture.add(paths_.path(learned));
      }
      const std::optional<PathMixture::Least> least = mixture.least(windows);
      if (!least || least->ns * (1 - 1e-9) > static_cast<double>(limit_ns_)) return true;
      result_.nodes += 1 + std::int64_t{stages_} * layers_ * layers_ / 2 / kRangesPerNode;
      if (interrupted_before_plan()) return false;
      static_cast<void>(rater_.consider(least->cuts, rater_.best().enters_ns()));
      mixture.reweigh(*least, static_cast<double>(limit_ns_));
    }
    paths_.add(mixture.best());
  }
  return !narrow(windows);
}

// Where every plan costs a simulation and adds no path, bounds come first.
bool CutSearch::refuted_by_bounds() {
  if (rater_.learns()) return false;
  Windows windows = entering_;
  return limit_ns_ < PathBounds::kMostMixed && refute(windows);
}

// Halves what lies between the bound and the best plan, by limits that are refuted or not.
void CutSearch::raise_bound() {
  const auto reached = [this] { return rater_.best().empty() ? problem_.longest_ns : rater_.best().kept().front().step_ns; };
  std::int64_t high = reached();
  if (high >= PathBounds::kMostMixed) return;
  while (!ended_ && high - result_.lower_bound_ns > high / kFinest) {
    const std::int64_t middle = result_.lower_bound_ns + (high - result_.lower_bound_ns) / 2;
    limit_ns_ = middle - rater_.step_cost_ns();
    Windows windows = allowed_;
    if (refute(windows)) {
      result_.lower_bound_ns = middle + 1;
    } else {
      high = std::min(middle, reached());
    }
  }
}

void CutSearch::start_walk() {
  balance_.refresh(windows_);
  lengths_.assign(static_cast<std::size_t>(stages_) + 1, std::vector<std::int64_t>(static_cast<std::size_t>(paths_.paths()), 0));
  order_.resize(static_cast<std::size_t>(paths_.paths()));
  for (std::size_t path = 0; path < order_.size(); ++path) order_[path] = static_cast<int>(path);
  passed_.assign(static_cast<std::size_t>(stages_) + 1, 0);
  copied_ = peaks_ = passed_;
  if (goal_ == Goal::tied) find_copied_rest();
  paused_ = false;
  since_probe_ = 0;
  probe_after_ = kProbeAfter;
}

bool CutSearch::exhaust(Goal goal, double gap, std::int64_t most_nodes) {
  goal_ = goal;
  const std::int64_t last_node = most_nodes < PathBounds::kFar ? result_.nodes + most_nodes : PathBounds::kFar;
  // Plans too slow even to tie stay out of every later search.
  if (rater_.best().full()) {
    limit_ns_ = rater_.best().kept().back().step_ns - rater_.step_cost_ns();
    if (!narrow(entering_)) return true;
  }
  windows_ = entering_;
  gap_ = gap;
  for (std::int64_t pause = kFirstPause;; pause *= 2) {
    set_limit();
    if (!narrow(windows_)) return true;
    start_walk();
    pause_at_ = std::min(result_.nodes + pause, last_node);
    visit(0);
    if (ended_) return false;
    if (!paused_) return true;
    if (result_.nodes >= last_node) return false;
  }
}

void CutSearch::visit(int stage) {
  const int first = stage == 0 ? 0 : cuts_.back();
  for (const int last : windows_.begins[static_cast<std::size_t>(stage) + 1]) {
    if (!windows_.allows(stage, first, last)) continue;
    ++result_.nodes;
    if (interrupted()) return;
    paused_ = paused_ || result_.nodes > pause_at_;
    if (paused_) return;
    const bool good =
        within_paths(stage, first, last) && fits(stage, first, last) && (goal_ == Goal::faster || may_rank(stage, first, last));
    if (!good) continue;
    if (stage + 2 < stages_ && ++since_probe_ >= probe_after_) probe(stage, last);
    descend(stage, first, last);
  }
}

// The longest path of the likeliest plan behind these cuts may rule out all plans behind them.
void CutSearch::probe(int stage, int last) {
  since_probe_ = 0;
  std::vector<int> cuts = cuts_;
  cuts.push_back(last);
  for (int s = stage + 1; s + 1 < stages_; ++s) {
    const int next = balance_.best_last(windows_, s, cuts.back());
    if (next < 0) return;
    cuts.push_back(next);
  }
  const int known = paths_.paths();
  consider(cuts);
  probe_after_ = paths_.paths() > known ? kProbeAfter : probe_after_ * 2;
}

void CutSearch::descend(int stage, int first, int last) {
  const auto next = static_cast<std::size_t>(stage) + 1;
  passed_[next] = passed_[next - 1] + balance_.passing(stage, first, last);
  if (stage + 1 < stages_) {
    cuts_.push_back(last);
    visit(stage + 1);
    cuts_.pop_back();
    return;
  }
  consider(cuts_);
}

void CutSearch::consider(const std::vector<int>& cuts) {
  if (ended_ || interrupted_before_plan()) return;
  const BestCuts& best = rater_.best();
  static_cast<void>(rater_.consider(cuts, goal_ == Goal::tied ? best.kept().back().step_ns : best.enters_ns()));
  set_limit();
  adopt_paths();
}

// Paths that were added last, or ruled out a plan, come first.
bool CutSearch::within_paths(int stage, int first, int last) {
  const auto at = static_cast<std::size_t>(stage);
  const std::int64_t passed = passed_[at] + (stage + 1 < stages_ ? balance_.passing(stage, first, last) : 0);
  if (passed + balance_.rest(stage + 1, last) > limit_ns_) return false;
  for (std::size_t place = 0; place < order_.size(); ++place) {
    const int path = order_[place];
    const std::int64_t length = paths_.through(path, stage, first, last, lengths_[at][static_cast<std::size_t>(path)]);
    if (length + paths_.rest(path, stage + 1, last) > paths_.scaled(path, limit_ns_)) {
      std::swap(order_[place], order_[place / 2]);
      return false;
    }
    lengths_[at + 1][static_cast<std::size_t>(path)] = length;
  }
  return true;
}

bool CutSearch::fits(int stage, int first, int last) {
  if (!rater_.knows_memory() || !family_.has_caps()) return true;
  if (!rater_.settle(stage, first, last)) return false;
  return !family_.recomputes_for_memory() || within_paths(stage, first, last);
}

// Of plans as fast as the last one listed, only those that rank before it matter.
bool CutSearch::may_rank(int stage, int first, int last) {
  const auto next = static_cast<std::size_t>(stage) + 1;
  const RatedCuts& worst = rater_.best().kept().back();
  copied_[next] = copied_[next - 1] + (stage + 1 < stages_ ? family_.copied_bytes(stage + 1, last) : 0);
  peaks_[next] = peaks_[next - 1];
  const std::int64_t copied = copied_[next] + copied_rest_[next][static_cast<std::size_t>(last)];
  if (copied != worst.copied_bytes) return copied < worst.copied_bytes;
  if (!rater_.knows_memory()) return true;
  peaks_[next] = std::max(peaks_[next], rater_.need(stage, first, last).peak_bytes);
  if (peaks_[next] != worst.peak_bytes) return peaks_[next] < worst.peak_bytes;
  for (std::size_t c = 0; c < cuts_.size(); ++c) {
    if (cuts_[c] != worst.cuts[c]) return cuts_[c] < worst.cuts[c];
  }
  return stage + 1 == stages_ || last <= worst.cuts[cuts_.size()];
}

void CutSearch::find_copied_rest() {
  copied_rest_.assign(static_cast<std::size_t>(stages_) + 1, std::vector<std::int64_t>(static_cast<std::size_t>(layers_) + 1, 0));
  for (int s = stages_ - 1; s-- > 0;) {
    const auto at = static_cast<std::size_t>(s);
    for (const int first : windows_.begins[at]) {
      std::int64_t least = PathBounds::kFar;
      for (const int last : windows_.begins[at + 1]) {
        if (!windows_.allows(s, first, last)) continue;
        least = std::min(least, family_.copied_bytes(s + 1, last) + copied_rest_[at + 1][static_cast<std::size_t>(last)]);
      }
      copied_rest_[at][static_cast<std::size_t>(first)] = least;
    }
  }
}

// Lengths up to the present stage, of paths that were added during the descent.
void CutSearch::adopt_paths() {
  const int known = static_cast<int>(order_.size());
  if (paths_.paths() == known) return;
  paths_.refresh(windows_, known);
  for (std::vector<std::int64_t>& lengths : lengths_) lengths.resize(static_cast<std::size_t>(paths_.paths()), 0);
  for (int path = known; path < paths_.paths(); ++path) {
    const auto index = static_cast<std::size_t>(path);
    int first = 0;
    for (std::size_t s = 0; s < cuts_.size(); ++s) {
      lengths_[s + 1][index] = paths_.through(path, static_cast<int>(s), first, cuts_[s], lengths_[s][index]);
      first = cuts_[s];
    }
    order_.insert(order_.begin(), path);
  }
}

// Most families are proved at once. For the others the bound rises in steps, so that a search that is stopped still has the last bound.
void CutSearch::prove() {
  if (exhaust(Goal::faster, 0, kDirectly)) {
    result_.complete = true;
  } else {
    raise_bound();
    for (const double gap : kSteps) {
      if (ended_ || rater_.best().empty() || !exhaust(Goal::faster, gap, PathBounds::kFar)) break;
      result_.lower_bound_ns = std::max(result_.lower_bound_ns, shortened(rater_.best().kept().front().step_ns, gap) + 1);
    }
  }
  if (!result_.complete && !ended_) result_.complete = exhaust(Goal::faster, 0, PathBounds::kFar);
  if (result_.complete && rater_.best().full()) result_.complete = exhaust(Goal::tied, 0, PathBounds::kFar);
}

PartitionResult CutSearch::run() {
  if (allowed_.empty()) {
    result_.complete = true;
    result_.lower_bound_ns = PartitionResult::kNoPlan;
    return std::move(result_);
  }
  bound_all();
  entering_ = allowed_;
  set_limit();
  if (!narrow(entering_) || refuted_by_bounds()) {
    result_.complete = true;
    return finish();
  }
  consider_first_plans(rater_, balance_, allowed_, static_cast<int>(problem_.microbatch_sizes.size()), [this] { return may_rate(); });
  prove();
  return finish();
}

PartitionResult CutSearch::finish() {
  const std::vector<RatedCuts>& best = rater_.best().kept();
  if (best.empty()) {
    const CutRater::Excess excess = rater_.smallest_excess(allowed_);
    // Plans beyond `longest_ns` were not looked at: one of them may fit.
    const bool looked_at_all = result_.complete && problem_.longest_ns == std::numeric_limits<std::int64_t>::max();
    const bool none = excess.bytes > 0 && (looked_at_all || rater_.knows_memory());
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
  result_.simulated = rater_.simulated();
  for (const RatedCuts& kept : best)
    result_.best.push_back({family_.plan(kept.cuts, kept.recomputed), kept.step_ns, kept.copied_bytes, kept.peak_bytes});
  return std::move(result_);
}

}  // namespace mptune
