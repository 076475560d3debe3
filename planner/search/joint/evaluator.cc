#include "planner/search/joint/evaluator.h"

#include <algorithm>
#include <limits>

#include "planner/cost/variants.h"
#include "planner/plan/executable.h"
#include "planner/plan/offload.h"
#include "planner/recompute/least_recompute.h"
#include "planner/search/finish/offload_stages.h"
#include "planner/search/search_budget.h"

namespace mptune::planner {
namespace {

// Returns the most bytes over a cap, and the device.
std::pair<std::int64_t, std::size_t> excess(const std::vector<std::int64_t>& peaks, const std::vector<std::int64_t>& caps) {
  std::pair<std::int64_t, std::size_t> most{0, 0};
  for (std::size_t d = 0; d < peaks.size(); ++d)
    if (caps[d] > 0 && peaks[d] - caps[d] > most.first) most = {peaks[d] - caps[d], d};
  return most;
}

}  // namespace

Evaluator::Evaluator(const SearchSpace& space, const CostModel& cost, int keep)
    : space_(space),
      cost_(cost),
      ranking_(keep, cost),
      may_offload_(planner::may_offload(space)),
      fastest_s_(std::numeric_limits<double>::infinity()) {}

double Evaluator::evaluate(Parallelism kind, Plan plan, const std::vector<std::int64_t>& caps) {
  const bool idle_devices_help = plan.options.idle_devices_help;
  plan.options = options_in(cost_.variant(), cost_.profile().precision, plan.devices);
  plan.options.idle_devices_help = idle_devices_help;
  const std::int64_t actions = std::int64_t{2} * plan.num_stages() * plan.num_microbatches();
  std::vector<std::int64_t> peaks = cost_.peak_bytes(plan);
  const bool too_large = excess(peaks, caps).first > 0;
  if (too_large && may_offload_) note_offloading(plan, peaks, caps);
  if (too_large && space_.recompute.empty() && !offloads(plan)) {
    plan = recomputing(plan, caps);
    peaks = cost_.peak_bytes(plan);
  }
  const auto [over, device] = excess(peaks, caps);
  if (over > 0) {
    note_excess(over, plan.devices[device]);
    reject(RejectedAs::too_large, 1);
    return std::numeric_limits<double>::infinity();
  }
  Candidate candidate{std::move(plan), {}};
  candidate.prediction = predict(candidate.plan, cost_);
  worked(actions, 1);
  const double step_s = candidate.prediction.step_s;
  if (const auto missing = missing_capability(candidate.plan, space_.capabilities)) {
    add_beyond(std::move(candidate), *missing);
    return step_s;
  }
  if (step_s < fastest_s_) {
    fastest_s_ = step_s;
    if (space_.improved) space_.improved(candidate);
  }
  if (kind == Parallelism::pipeline && has_replicas(candidate.plan)) kind = Parallelism::hybrid;
  ranking_.add(kind, std::move(candidate));
  return step_s;
}

Plan Evaluator::recomputing(const Plan& plan, const std::vector<std::int64_t>& caps) {
  LeastRecompute least = with_least_recompute(plan, caps, cost_, Effort::quick);
  worked(least.worked, 0);
  const bool fits = excess(cost_.peak_bytes(least.plan), caps).first == 0;
  if (!fits || thorough_ > space_.most_actions / SearchBudget::kThoroughWorkDivisor) return std::move(least.plan);
  if (predict(least.plan, cost_).step_s > SearchBudget::kMostSavedByEffort * fastest_s_) return std::move(least.plan);
  least = with_least_recompute(plan, caps, cost_, Effort::thorough);
  worked(least.worked, 0);
  thorough_ += least.worked;
  return std::move(least.plan);
}

void Evaluator::note_offloading(const Plan& plan, const std::vector<std::int64_t>& peaks, const std::vector<std::int64_t>& caps) {
  std::optional<Plan> offloading = offloading_over_caps(plan, peaks, caps, cost_);
  if (!offloading || missing_capability(*offloading, space_.capabilities)) return;
  const auto same = [&](const Candidate& known) { return known.plan == *offloading; };
  if (std::ranges::any_of(offloading_, same)) return;
  Prediction prediction = predict(*offloading, cost_);
  worked(std::int64_t{2} * plan.num_stages() * plan.num_microbatches(), 1);
  const auto step_s = [](const Candidate& candidate) { return candidate.prediction.step_s; };
  const auto place = std::ranges::upper_bound(offloading_, prediction.step_s, {}, step_s);
  offloading_.insert(place, {*std::move(offloading), std::move(prediction)});
  if (offloading_.size() > SearchBudget::kMostOffloading) offloading_.pop_back();
}

void Evaluator::add_beyond(Candidate candidate, MissingCapability missing) {
  const auto known = beyond_.find(candidate.plan.schedule);
  if (known != beyond_.end() && known->second.candidate.prediction.step_s <= candidate.prediction.step_s) return;
  const std::string schedule = candidate.plan.schedule;
  beyond_.insert_or_assign(schedule, NotExecutable{std::move(candidate), missing});
}

void Evaluator::reject(RejectedAs reason, std::int64_t count) {
  if (count == 0) return;
  const auto known = std::ranges::find(result_.rejected, reason, &Rejection::reason);
  if (known != result_.rejected.end())
    known->count += count;
  else
    result_.rejected.push_back({reason, count});
}

void Evaluator::note_excess(std::int64_t bytes, const std::string& device) {
  if (result_.smallest_excess_bytes > 0 && result_.smallest_excess_bytes <= bytes) return;
  result_.smallest_excess_bytes = bytes;
  result_.smallest_excess_device = device;
}

void Evaluator::worked(std::int64_t actions, std::int64_t simulated) {
  actions_ += actions;
  result_.simulated += simulated;
}

bool Evaluator::stopped() {
  stopped_ = stopped_ || (space_.stop && space_.stop(1));
  return stopped_;
}

bool Evaluator::spent() {
  return actions_ > space_.most_actions || stopped();
}

}  // namespace mptune::planner
