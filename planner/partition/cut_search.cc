#include "mptune/planner/partition/cut_search.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

namespace mptune {
namespace {

constexpr std::int64_t kFirstPause = 4096;   // nodes, doubled after every narrowing of the windows
constexpr std::int64_t kDirectly = 200'000;  // nodes, before the proof goes in steps
constexpr std::int64_t kProbeAfter = 16;
constexpr int kWorthAgain = 10;  // windows are narrowed again while they lose a part of this many
constexpr double kSteps[] = {0.02, 0.01, 0.003};
constexpr std::int64_t kNodesPerQuestion = 64;

std::int64_t shortened(std::int64_t ns, double gap) {
  return static_cast<std::int64_t>(std::floor(static_cast<double>(ns) * (1 - gap))) - 1;
}

}  // namespace

CutSearch::CutSearch(const PartitionProblem& problem, const CostModel& cost, const Family& family)
    : problem_(problem),
      cost_(cost),
      family_(family),
      prices_(problem, cost),
      times_(list_operations(family.any_plan(), cost), prices_),
      learns_(family.rows_are_fixed()),
      exact_(learns_ && family.one_stage_per_device() && times_.exact()),
      stages_(family.stages()),
      layers_(cost.layers()),
      bounds_(prices_, stages_),
      balance_(prices_, learns_ ? times_.row_ways() : times_.row_ways_of_any_order()),
      best_(problem.keep, problem.longest_ns) {
  if (learns_ && family.one_stage_per_device()) memory_.emplace(family, cost);
  open_windows();
}

void CutSearch::open_windows() {
  opened_.begins.resize(static_cast<std::size_t>(stages_) + 1);
  for (int s = 0; s <= stages_; ++s) {
    std::vector<int>& begins = opened_.begins[static_cast<std::size_t>(s)];
    if (s == 0) begins = {0};
    if (s == stages_) begins = {layers_};
    for (int layer = s; s > 0 && layer <= layers_ - (stages_ - s) && s < stages_; ++layer) {
      if (cost_.may_cut(layer)) begins.push_back(layer);
    }
  }
  for (int s = 0; s < stages_; ++s) {
    std::vector<int> furthest(static_cast<std::size_t>(layers_) + 1, layers_);
    if (memory_) furthest = memory_->furthest(s);
    opened_.furthest.push_back(std::move(furthest));
  }
}

void CutSearch::add_rows() {
  for (const Way& way : learns_ ? times_.row_ways() : times_.row_ways_of_any_order()) bounds_.add(way);
  bounds_.refresh(opened_);
  balance_.refresh(opened_);
  std::int64_t least = balance_.rest(0, 0);
  for (int way = 0; way < bounds_.ways(); ++way) least = std::max(least, bounds_.rest(way, 0, 0));
  result_.lower_bound_ns = least < WayBounds::kFar ? least + times_.step_cost_ns() : PartitionResult::kNoPlan;
}

// Good plans early leave the proof little to do: the cuts of the balance bound, also with copies counted as their senders' work, and better
// neighbours of theirs.
void CutSearch::seed() {
  climb(balanced(balance_));
  const int half = (static_cast<int>(problem_.microbatch_sizes.size()) + 1) / 2;  // a copy there and back for every two micro-batches
  std::vector<Way> rows = balance_.rows();
  for (int slot = 0; slot < prices_.slots(); ++slot) {
    if (prices_.what(slot) == What::copy) rows[static_cast<std::size_t>(prices_.stage(slot))].count[static_cast<std::size_t>(slot)] = half;
  }
  BalanceBound with_copies(prices_, std::move(rows));
  with_copies.refresh(opened_);
  climb(balanced(with_copies));
}

// Empty if the family has no such cuts.
std::vector<int> CutSearch::balanced(const BalanceBound& balance) const {
  std::vector<int> cuts;
  int first = 0;
  for (int s = 0; s + 1 < stages_; ++s) {
    first = balance.best_last(opened_, s, first);
    if (first < 0) return {};
    cuts.push_back(first);
  }
  return cuts;
}

void CutSearch::climb(std::vector<int> cuts) {
  if (static_cast<int>(cuts.size()) + 1 != stages_) return;
  std::int64_t now = consider(cuts);
  for (std::int64_t next = climb_step(cuts, now); next < now; next = climb_step(cuts, now)) now = next;
}

// Moves one cut anywhere between its neighbours, or two by a layer; nanoseconds of the best.
std::int64_t CutSearch::climb_step(std::vector<int>& cuts, std::int64_t now) {
  std::vector<int> best = cuts;
  const auto attempt = [&](const std::vector<int>& moved) {
    const std::int64_t ns = consider(moved);
    if (ns >= now) return;
    now = ns;
    best = moved;
  };
  for (std::size_t c = 0; c < cuts.size() && !interrupted(); ++c) {
    std::vector<int> moved = cuts;
    for (const int layer : opened_.begins[c + 1]) {
      moved[c] = layer;
      if (layer > (c == 0 ? 0 : cuts[c - 1]) && layer < (c + 1 == cuts.size() ? layers_ : cuts[c + 1])) attempt(moved);
    }
    for (std::size_t d = c + 1; d < cuts.size(); ++d) {
      for (const auto& [by, other] : {std::pair(-1, -1), std::pair(-1, 1), std::pair(1, -1), std::pair(1, 1)}) {
        moved = cuts;
        moved[c] += by;
        moved[d] += other;
        if (allowed(moved)) attempt(moved);
      }
    }
  }
  cuts = best;
  return now;
}

bool CutSearch::allowed(const std::vector<int>& cuts) const {
  for (std::size_t c = 0; c < cuts.size(); ++c) {
    const std::vector<int>& begins = opened_.begins[c + 1];
    if ((c > 0 && cuts[c] <= cuts[c - 1]) || !std::binary_search(begins.begin(), begins.end(), cuts[c])) return false;
  }
  return true;
}

bool CutSearch::interrupted() {
  if (result_.nodes > problem_.most_nodes) ended_ = true;
  if (!ended_ && problem_.stop && result_.nodes % kNodesPerQuestion == 0 && problem_.stop()) ended_ = true;
  return ended_;
}

void CutSearch::set_limit() {
  std::int64_t limit = best_.enters_ns();
  if (goal_ == Goal::tied) limit = best_.kept().back().step_ns;
  if (gap_ > 0 && !best_.empty()) limit = std::min(limit, shortened(best_.kept().front().step_ns, gap_));
  limit_ns_ = std::min(limit - times_.step_cost_ns(), WayBounds::kFar - 1);
}

// False if no plan is left.
bool CutSearch::narrow() {
  int dropped = 0;
  do {
    bounds_.refresh(windows_);
    int left = 0;
    for (const std::vector<int>& begins : windows_.begins) left += static_cast<int>(begins.size());
    dropped = bounds_.narrow(limit_ns_, windows_);
    if (windows_.empty()) return false;
    if (dropped * kWorthAgain < left) break;
  } while (dropped > 0);
  balance_.refresh(windows_);
  lengths_.assign(static_cast<std::size_t>(stages_) + 1, std::vector<std::int64_t>(static_cast<std::size_t>(bounds_.ways()), 0));
  order_.resize(static_cast<std::size_t>(bounds_.ways()));
  for (std::size_t way = 0; way < order_.size(); ++way) order_[way] = static_cast<int>(way);
  return true;
}

bool CutSearch::exhaust(Goal goal, double gap, std::int64_t most_nodes) {
  goal_ = goal;
  gap_ = gap;
  windows_ = opened_;
  passed_.assign(static_cast<std::size_t>(stages_) + 1, 0);
  copied_ = peaks_ = passed_;
  const std::int64_t last_node = most_nodes < WayBounds::kFar ? result_.nodes + most_nodes : WayBounds::kFar;
  for (std::int64_t pause = kFirstPause;; pause *= 2) {
    set_limit();
    if (!narrow()) return true;
    if (goal == Goal::tied) find_copied_rest();
    paused_ = false;
    probe_after_ = kProbeAfter;
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
        within_ways(stage, first, last) && fits(stage, first, last) && (goal_ == Goal::faster || may_rank(stage, first, last));
    if (!good) continue;
    if (learns_ && stage + 2 < stages_ && ++since_probe_ >= probe_after_) probe(stage, last);
    descend(stage, first, last);
  }
}

// What rules out the likeliest plan behind these cuts may rule out all of them at once.
void CutSearch::probe(int stage, int last) {
  since_probe_ = 0;
  std::vector<int> cuts = cuts_;
  cuts.push_back(last);
  for (int s = stage + 1; s + 1 < stages_; ++s) {
    const int next = balance_.best_last(windows_, s, cuts.back());
    if (next < 0) return;
    cuts.push_back(next);
  }
  const int known = bounds_.ways();
  static_cast<void>(consider(cuts));
  probe_after_ = bounds_.ways() > known ? kProbeAfter : probe_after_ * 2;
  set_limit();
  adopt_ways();
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
  static_cast<void>(consider(cuts_));
  set_limit();
  adopt_ways();
}

// The ways that were learned last, or ruled out something, come first.
bool CutSearch::within_ways(int stage, int first, int last) {
  const auto at = static_cast<std::size_t>(stage);
  const std::int64_t passed = passed_[at] + (stage + 1 < stages_ ? balance_.passing(stage, first, last) : 0);
  if (passed + balance_.rest(stage + 1, last) > limit_ns_) return false;
  for (std::size_t place = 0; place < order_.size(); ++place) {
    const int way = order_[place];
    const std::int64_t length = bounds_.through(way, stage, first, last, lengths_[at][static_cast<std::size_t>(way)]);
    if (length + bounds_.rest(way, stage + 1, last) > limit_ns_ * bounds_.weight(way)) {
      std::swap(order_[place], order_[place / 2]);
      return false;
    }
    lengths_[at + 1][static_cast<std::size_t>(way)] = length;
  }
  return true;
}

bool CutSearch::fits(int stage, int first, int last) {
  if (!memory_ || !family_.has_caps()) return true;
  const StageNeed& need = memory_->need(stage, first, last);
  if (need.excess_bytes > 0) return false;
  prices_.settle(stage, first, last, need.recomputed);
  return !family_.recomputes_for_memory() || within_ways(stage, first, last);
}

// Of plans as fast as the last that is kept, only those that rank before it are of interest.
bool CutSearch::may_rank(int stage, int first, int last) {
  const auto next = static_cast<std::size_t>(stage) + 1;
  const RatedCuts& worst = best_.kept().back();
  copied_[next] = copied_[next - 1] + (stage + 1 < stages_ ? family_.copied_bytes(stage + 1, last) : 0);
  const std::int64_t copied = copied_[next] + copied_rest_[next][static_cast<std::size_t>(last)];
  if (copied != worst.copied_bytes) return copied < worst.copied_bytes;
  if (!memory_) return true;
  peaks_[next] = std::max(peaks_[next - 1], memory_->need(stage, first, last).peak_bytes);
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
      std::int64_t least = WayBounds::kFar;
      for (const int last : windows_.begins[at + 1]) {
        if (!windows_.allows(s, first, last)) continue;
        least = std::min(least, family_.copied_bytes(s + 1, last) + copied_rest_[at + 1][static_cast<std::size_t>(last)]);
      }
      copied_rest_[at][static_cast<std::size_t>(first)] = least;
    }
  }
}

// Ways that were learned on the way down get the lengths up to here.
void CutSearch::adopt_ways() {
  const int known = static_cast<int>(order_.size());
  if (bounds_.ways() == known) return;
  bounds_.refresh(windows_, known);
  for (std::vector<std::int64_t>& lengths : lengths_) lengths.resize(static_cast<std::size_t>(bounds_.ways()), 0);
  for (int way = known; way < bounds_.ways(); ++way) {
    const auto index = static_cast<std::size_t>(way);
    int first = 0;
    for (std::size_t s = 0; s < cuts_.size(); ++s) {
      lengths_[s + 1][index] = bounds_.through(way, static_cast<int>(s), first, cuts_[s], lengths_[s][index]);
      first = cuts_[s];
    }
    order_.insert(order_.begin(), way);
  }
}

// Says of every stage whether it is recomputed; false if one does not fit.
bool CutSearch::settle(const std::vector<int>& cuts) {
  if (!memory_ || !family_.has_caps()) return true;
  int first = 0;
  for (int s = 0; s < stages_; ++s) {
    const int last = s + 1 < stages_ ? cuts[static_cast<std::size_t>(s)] : layers_;
    const StageNeed& need = memory_->need(s, first, last);
    if (need.excess_bytes > 0) return false;
    prices_.settle(s, first, last, need.recomputed);
    first = last;
  }
  return true;
}

std::int64_t CutSearch::consider(const std::vector<int>& cuts) {
  if (!settle(cuts)) return WayBounds::kFar;
  const std::int64_t enters = goal_ == Goal::tied ? best_.kept().back().step_ns : best_.enters_ns();
  const std::int64_t known = learns_ ? bounds_.longest(cuts) + times_.step_cost_ns() : 0;
  if (known > enters) return known;
  ++result_.simulated;
  const std::int64_t alone = learns_ ? times_.step_ns(cuts) : 0;
  if (learns_ && alone > limit_ns_ + times_.step_cost_ns()) bounds_.add(times_.longest_way());  // rules it out, and what is like it
  if (alone > enters) return alone;
  std::optional<RatedCuts> plan = rated(cuts, alone);
  if (!plan) return WayBounds::kFar;
  any_fits_ = true;
  const std::int64_t step = plan->step_ns;
  best_.add(std::move(*plan));
  return step;
}

std::optional<RatedCuts> CutSearch::rated(const std::vector<int>& cuts, std::int64_t alone_ns) {
  if (!exact_) {
    RatedCuts plan = family_.rate(cuts);
    if (plan.excess_bytes == 0) return plan;
    if (result_.smallest_excess_bytes == 0 || plan.excess_bytes < result_.smallest_excess_bytes) {
      result_.smallest_excess_bytes = plan.excess_bytes;
      result_.smallest_excess_device = plan.excess_device;
    }
    return std::nullopt;
  }
  RatedCuts plan;
  plan.cuts = cuts;
  plan.step_ns = alone_ns;
  int first = 0;
  for (int s = 0; s < stages_; ++s) {
    const int last = s + 1 < stages_ ? cuts[static_cast<std::size_t>(s)] : layers_;
    const StageNeed& need = memory_->need(s, first, last);
    plan.peak_bytes = std::max(plan.peak_bytes, need.peak_bytes);
    if (need.recomputed) plan.recomputed.push_back(s);
    if (s > 0) plan.copied_bytes += family_.copied_bytes(s, first);
    first = last;
  }
  return plan;
}

// Most families are proved at once. For the others the bound rises in steps, so that whoever ends the search has the last one.
void CutSearch::prove_in_steps() {
  if (exhaust(Goal::faster, 0, kDirectly)) {
    result_.complete = true;
  } else if (!best_.empty()) {
    for (const double gap : kSteps) {
      if (ended_ || !exhaust(Goal::faster, gap, WayBounds::kFar)) break;
      result_.lower_bound_ns = std::max(result_.lower_bound_ns, shortened(best_.kept().front().step_ns, gap) + 1);
    }
  }
  if (!result_.complete && !ended_) result_.complete = exhaust(Goal::faster, 0, WayBounds::kFar);
  if (result_.complete && best_.full()) result_.complete = exhaust(Goal::tied, 0, WayBounds::kFar);
}

PartitionResult CutSearch::run() {
  if (opened_.empty()) {
    result_.complete = true;
    result_.lower_bound_ns = PartitionResult::kNoPlan;
    return std::move(result_);
  }
  add_rows();
  seed();
  prove_in_steps();
  return finish();
}

// The stages' least excess over all cuts is a min-max shortest path. What a stage surely exceeds grows with its layers, so most ranges
// need not be measured.
void CutSearch::find_smallest_excess() {
  std::vector<std::pair<std::int64_t, int>> rest(static_cast<std::size_t>(layers_) + 1, {WayBounds::kFar, -1});
  rest.back() = {-WayBounds::kFar, -1};
  for (int s = stages_; s-- > 0;) {
    std::vector<std::pair<std::int64_t, int>> now(rest.size(), {WayBounds::kFar, -1});
    for (const int first : opened_.begins[static_cast<std::size_t>(s)]) {
      std::pair<std::int64_t, int>& least = now[static_cast<std::size_t>(first)];
      for (const int last : opened_.begins[static_cast<std::size_t>(s) + 1]) {
        const std::pair<std::int64_t, int>& behind = rest[static_cast<std::size_t>(last)];
        if (last <= first || behind.first >= least.first || memory_->least_excess(s, first, last) >= least.first) continue;
        const StageNeed& need = memory_->need(s, first, last);
        least = std::min(least, std::max(behind, std::pair(need.excess_bytes, need.excess_device)));
      }
    }
    rest = std::move(now);
  }
  if (rest.front().first <= 0) {
    any_fits_ = true;
  } else if (rest.front().first < WayBounds::kFar) {
    std::tie(result_.smallest_excess_bytes, result_.smallest_excess_device) = rest.front();
  }
}

PartitionResult CutSearch::finish() {
  if (best_.empty() && !any_fits_ && memory_ && family_.has_caps()) find_smallest_excess();
  if (any_fits_) {
    result_.smallest_excess_bytes = 0;
    result_.smallest_excess_device = -1;
  }
  if (!best_.empty() && result_.complete) result_.lower_bound_ns = best_.kept().front().step_ns;
  if (best_.empty() && result_.smallest_excess_bytes > 0 && (result_.complete || memory_))
    result_.lower_bound_ns = PartitionResult::kNoPlan;
  if (best_.empty() && result_.complete && result_.lower_bound_ns != PartitionResult::kNoPlan)
    result_.lower_bound_ns = std::max(result_.lower_bound_ns, problem_.longest_ns + 1);
  for (const RatedCuts& kept : best_.kept())
    result_.best.push_back({family_.plan(kept.cuts, kept.recomputed), kept.step_ns, kept.copied_bytes, kept.peak_bytes});
  return std::move(result_);
}

}  // namespace mptune
