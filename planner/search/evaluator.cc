#include "mptune/planner/search/evaluator.h"

#include <algorithm>
#include <limits>

namespace mptune {
namespace {

// Most bytes over a cap, and the device.
std::pair<std::int64_t, std::size_t> excess(const std::vector<std::int64_t>& peaks, const std::vector<std::int64_t>& caps) {
  std::pair<std::int64_t, std::size_t> most{0, 0};
  for (std::size_t d = 0; d < peaks.size(); ++d) {
    if (caps[d] > 0 && peaks[d] - caps[d] > most.first) most = {peaks[d] - caps[d], d};
  }
  return most;
}

}  // namespace

Evaluator::Evaluator(const CostModel& cost, bool allow_recompute, int keep)
    : cost_(cost), allow_recompute_(allow_recompute), ranking_(keep) {
  result_.lower_bound_s = std::numeric_limits<double>::infinity();
}

double Evaluator::evaluate(RankedAs kind, Plan plan, const std::vector<std::int64_t>& caps) {
  std::vector<std::int64_t> peaks = cost_.peak_bytes(plan);
  if (allow_recompute_ && excess(peaks, caps).first > 0) {
    for (Stage& stage : plan.stages) {
      const bool asks = std::any_of(stage.devices.begin(), stage.devices.end(), [&](int d) {
        const auto at = static_cast<std::size_t>(d);
        return caps[at] > 0 && peaks[at] > caps[at];
      });
      if (asks) stage.recompute.mode = Recompute::Mode::all;
    }
    peaks = cost_.peak_bytes(plan);
  }
  const auto [over, device] = excess(peaks, caps);
  if (over > 0) {
    note_excess(over, plan.devices[device]);
    reject(kTooLarge, 1);
    return std::numeric_limits<double>::infinity();
  }
  Candidate candidate{std::move(plan), {}};
  candidate.prediction = predict(candidate.plan, cost_);
  ++result_.simulated;
  actions_ += 2 * candidate.plan.num_stages() * candidate.plan.num_microbatches();
  any_fits_ = true;
  lower_bound(candidate.prediction.lower_bound_s);
  const double step_s = candidate.prediction.step_s;
  ranking_.add(kind, std::move(candidate));
  return step_s;
}

void Evaluator::reject(const char* reason, std::int64_t count) {
  if (count == 0) return;
  for (Rejection& known : result_.rejected) {
    if (known.reason != reason) continue;
    known.count += count;
    return;
  }
  result_.rejected.push_back({reason, count});
}

void Evaluator::lower_bound(double seconds) {
  result_.lower_bound_s = std::min(result_.lower_bound_s, seconds);
}

bool Evaluator::may_matter(std::int64_t excess_bytes) const {
  return !any_fits_ && (result_.smallest_excess_bytes == 0 || excess_bytes < result_.smallest_excess_bytes);
}

void Evaluator::note_excess(std::int64_t bytes, const std::string& device) {
  if (result_.smallest_excess_bytes > 0 && result_.smallest_excess_bytes <= bytes) return;
  result_.smallest_excess_bytes = bytes;
  result_.smallest_excess_device = device;
}

}  // namespace mptune
