#include "planner/partition/cut_walk.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "planner/schedule/schedule_info.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

constexpr std::int64_t kProbeAfter = 16;  // nodes; doubled while probes add no path
constexpr std::int64_t kNodesPerStopCheck = 64;
constexpr std::int64_t kActionsPerStopCheck = 1 << 16;  // timed actions: well below a millisecond

}  // namespace

SearchEffort::SearchEffort(const PartitionProblem& problem) : problem_(problem) {
  const auto actions = 2 * std::ssize(problem.stages) * std::ssize(problem.microbatch_sizes);
  const bool simulates = schedule_info(problem.schedule).rows_from != RowsFrom::pattern;
  plans_per_stop_check_ = simulates ? 1 : std::max<std::int64_t>(1, kActionsPerStopCheck / std::max<std::int64_t>(1, actions));
}

bool SearchEffort::interrupted() {
  if (nodes_ > problem_.most_nodes) ended_ = true;
  if (!ended_ && problem_.stop && nodes_ % kNodesPerStopCheck == 0 && problem_.stop()) ended_ = true;
  return ended_;
}

bool SearchEffort::interrupted_before_plan() {
  const bool asks = problem_.stop && plans_++ % plans_per_stop_check_ == 0;
  ended_ = ended_ || nodes_ > problem_.most_nodes || (asks && problem_.stop());
  return ended_;
}

std::int64_t shortened_ns(std::int64_t ns, double gap) {
  return static_cast<std::int64_t>(std::floor(static_cast<double>(ns) * (1 - gap))) - 1;
}

std::int64_t path_limit_ns(const WalkAim& aim, const CutRater& rater) {
  const BestCuts& best = rater.best();
  std::int64_t limit = aim.goal == WalkAim::Goal::tied ? best.kept().back().step_ns : best.enters_ns();
  if (aim.gap > 0 && !best.empty()) limit = std::min(limit, shortened_ns(best.kept().front().step_ns, aim.gap));
  return std::min(limit - rater.step_cost_ns(), PathBounds::kFar - 1);
}

CutWalk::CutWalk(const Family& family, CutRater& rater, SearchEffort& effort, const BalanceBound& balance, const WalkAim& aim,
                 const Windows& windows)
    : family_(family),
      rater_(rater),
      paths_(rater.paths()),
      effort_(effort),
      aim_(aim),
      windows_(windows),
      balance_(balance),
      stages_(windows.stages()),
      layers_(rater.prices().layers()),
      limit_ns_(path_limit_ns(aim, rater)),
      probe_after_(kProbeAfter) {
  balance_.refresh(windows_);
  const auto width = as_index(stages_) + 1;
  lengths_.assign(width, std::vector<std::int64_t>(as_index(paths_.paths()), 0));
  order_.resize(as_index(paths_.paths()));
  for (std::size_t path = 0; path < order_.size(); ++path) order_[path] = static_cast<int>(path);
  passed_.assign(width, 0);
  copied_ = peaks_ = passed_;
  if (aim_.goal == WalkAim::Goal::tied) find_copied_rest();
}

CutWalk::End CutWalk::run(std::int64_t pause_at) {
  pause_at_ = pause_at;
  visit(0);
  if (effort_.ended()) return End::interrupted;
  return paused_ ? End::paused : End::complete;
}

void CutWalk::visit(int stage) {
  const int first = stage == 0 ? 0 : cuts_.back();
  for (const int last : windows_.begins[as_index(stage) + 1]) {
    if (!windows_.allows(stage, first, last)) continue;
    effort_.add(1);
    if (effort_.interrupted()) return;
    paused_ = paused_ || effort_.nodes() > pause_at_;
    if (paused_) return;
    const bool good = within_paths(stage, first, last) && fits(stage, first, last) &&
                      (aim_.goal == WalkAim::Goal::faster || may_rank(stage, first, last));
    if (!good) continue;
    if (stage + 2 < stages_ && ++since_probe_ >= probe_after_) probe(stage, last);
    descend(stage, first, last);
  }
}

// Rates the best balanced plan that begins with these cuts. Its longest path may exclude all other plans that begin with them.
void CutWalk::probe(int stage, int last) {
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

void CutWalk::descend(int stage, int first, int last) {
  const auto next = as_index(stage) + 1;
  passed_[next] = passed_[next - 1] + balance_.passing(stage, first, last);
  if (stage + 1 < stages_) {
    cuts_.push_back(last);
    visit(stage + 1);
    cuts_.pop_back();
    return;
  }
  consider(cuts_);
}

void CutWalk::consider(const std::vector<int>& cuts) {
  if (effort_.ended() || effort_.interrupted_before_plan()) return;
  const BestCuts& best = rater_.best();
  static_cast<void>(rater_.consider(cuts, aim_.goal == WalkAim::Goal::tied ? best.kept().back().step_ns : best.enters_ns()));
  limit_ns_ = path_limit_ns(aim_, rater_);
  adopt_paths();
}

// Checks the paths that are most likely to exclude a plan first: those added last, and those that have excluded plans.
bool CutWalk::within_paths(int stage, int first, int last) {
  const auto at = as_index(stage);
  const std::int64_t passed = passed_[at] + (stage + 1 < stages_ ? balance_.passing(stage, first, last) : 0);
  if (passed + balance_.rest(stage + 1, last) > limit_ns_) return false;
  for (std::size_t place = 0; place < order_.size(); ++place) {
    const int path = order_[place];
    const std::int64_t length = paths_.through(path, stage, first, last, lengths_[at][as_index(path)]);
    if (length + paths_.rest(path, stage + 1, last) > paths_.scaled(path, limit_ns_)) {
      std::swap(order_[place], order_[place / 2]);
      return false;
    }
    lengths_[at + 1][as_index(path)] = length;
  }
  return true;
}

bool CutWalk::fits(int stage, int first, int last) {
  if (!rater_.knows_memory() || !family_.has_caps()) return true;
  if (!rater_.settle(stage, first, last)) return false;
  return !family_.recomputes_for_memory() || within_paths(stage, first, last);
}

// Among plans as fast as the last one listed, only those that rank before it matter.
bool CutWalk::may_rank(int stage, int first, int last) {
  const auto next = as_index(stage) + 1;
  const RatedCuts& worst = rater_.best().kept().back();
  copied_[next] = copied_[next - 1] + (stage + 1 < stages_ ? family_.copied_bytes(stage + 1, last) : 0);
  peaks_[next] = peaks_[next - 1];
  const std::int64_t copied = copied_[next] + copied_rest_[next][as_index(last)];
  if (copied != worst.copied_bytes) return copied < worst.copied_bytes;
  if (!rater_.knows_memory()) return true;
  peaks_[next] = std::max(peaks_[next], rater_.need(stage, first, last).peak_bytes);
  if (peaks_[next] != worst.peak_bytes) return peaks_[next] < worst.peak_bytes;
  for (std::size_t c = 0; c < cuts_.size(); ++c)
    if (cuts_[c] != worst.cuts[c]) return cuts_[c] < worst.cuts[c];
  return stage + 1 == stages_ || last <= worst.cuts[cuts_.size()];
}

void CutWalk::find_copied_rest() {
  copied_rest_.assign(as_index(stages_) + 1, std::vector<std::int64_t>(as_index(layers_) + 1, 0));
  for (int s = stages_ - 1; s-- > 0;) {
    const auto at = as_index(s);
    for (const int first : windows_.begins[at]) {
      std::int64_t least = PathBounds::kFar;
      for (const int last : windows_.begins[at + 1]) {
        if (!windows_.allows(s, first, last)) continue;
        least = std::min(least, family_.copied_bytes(s + 1, last) + copied_rest_[at + 1][as_index(last)]);
      }
      copied_rest_[at][as_index(first)] = least;
    }
  }
}

// Takes over paths that were added during the descent, with their lengths up to the current stage.
void CutWalk::adopt_paths() {
  const int known = static_cast<int>(order_.size());
  if (paths_.paths() == known) return;
  paths_.refresh(windows_, known);
  for (std::vector<std::int64_t>& lengths : lengths_) lengths.resize(as_index(paths_.paths()), 0);
  for (int path = known; path < paths_.paths(); ++path) {
    const auto index = as_index(path);
    int first = 0;
    for (std::size_t s = 0; s < cuts_.size(); ++s) {
      lengths_[s + 1][index] = paths_.through(path, static_cast<int>(s), first, cuts_[s], lengths_[s][index]);
      first = cuts_[s];
    }
    order_.insert(order_.begin(), path);
  }
}

}  // namespace mptune::planner
