#include "planner/partition/family.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "planner/recompute/smallest_peak.h"
#include "planner/schedule/schedule.h"
#include "planner/schedule/schedule_info.h"
#include "planner/simulate/operations.h"
#include "planner/simulate/schedule_costs.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

void check(const PartitionProblem& problem, const CostModel& cost) {
  const auto refuse = [](const std::string& what, const std::string& remedy) { throw Error(what, "partition", remedy); };
  if (problem.stages.empty()) refuse("a family of plans has no stages", "give the devices of at least one stage");
  if (problem.microbatch_sizes.empty()) refuse("a family of plans has no micro-batches", "give at least one");
  if (!problem.memory_bytes.empty() && problem.memory_bytes.size() != problem.devices.size())
    refuse("there are " + std::to_string(problem.memory_bytes.size()) + " caps for " + std::to_string(problem.devices.size()) + " devices",
           "give a cap per device, or none");
  const auto [least, most] = std::minmax_element(problem.microbatch_sizes.begin(), problem.microbatch_sizes.end());
  if (*least < 1 || *most - *least > 1) refuse("micro-batches of a family differ by more than one sample", "split the batch evenly");
  static_cast<void>(cost.device_indices(problem.devices));
  cost.require_countable(std::accumulate(problem.microbatch_sizes.begin(), problem.microbatch_sizes.end(), std::int64_t{0}));
  for (const std::vector<int>& devices : problem.stages) {
    if (devices.empty()) refuse("a stage has no device", "give every stage at least one");
    for (const int device : devices) {
      if (device < 0 || device >= static_cast<int>(problem.devices.size()))
        refuse("a stage names device " + std::to_string(device) + " of " + std::to_string(problem.devices.size()),
               "use indices into the devices of the family");
    }
  }
  for (const int stage : problem.recomputed) {
    if (stage < 0 || stage >= static_cast<int>(problem.stages.size()))
      refuse("stage " + std::to_string(stage) + " is to be recomputed, there are " + std::to_string(problem.stages.size()),
             "name stages of the family");
  }
}

}  // namespace

bool ranks_before(const RatedCuts& a, const RatedCuts& b) {
  return std::tie(a.step_ns, a.copied_bytes, a.peak_bytes, a.cuts) < std::tie(b.step_ns, b.copied_bytes, b.peak_bytes, b.cuts);
}

Family::Family(const PartitionProblem& problem, const CostModel& cost) : problem_(problem), cost_(cost) {
  check(problem, cost);
}

std::int64_t Family::cap(int device) const {
  return problem_.memory_bytes.empty() ? 0 : problem_.memory_bytes[as_index(device)];
}

bool Family::has_caps() const {
  return std::any_of(problem_.memory_bytes.begin(), problem_.memory_bytes.end(), [](std::int64_t cap) { return cap > 0; });
}

bool Family::always_recomputed(int stage) const {
  return std::find(problem_.recomputed.begin(), problem_.recomputed.end(), stage) != problem_.recomputed.end();
}

bool Family::rows_are_fixed() const {
  return schedule_info(problem_.schedule).rows_from == RowsFrom::pattern;
}

bool Family::one_stage_per_device() const {
  std::vector<int> stages_on(problem_.devices.size(), 0);
  for (const std::vector<int>& devices : problem_.stages)
    for (const int device : devices) ++stages_on[as_index(device)];
  return std::all_of(stages_on.begin(), stages_on.end(), [](int count) { return count < 2; });
}

Plan Family::plan(const std::vector<int>& cuts, const std::vector<int>& recomputed) const {
  Plan plan;
  plan.devices = problem_.devices;
  plan.microbatch_sizes = problem_.microbatch_sizes;
  for (std::size_t s = 0; s < problem_.stages.size(); ++s) {
    const int first = s == 0 ? 0 : cuts[s - 1];
    const int last = s == cuts.size() ? cost_.layers() : cuts[s];
    plan.stages.push_back({first, last, problem_.stages[s], {}});
  }
  for (const int stage : recomputed) plan.stages[as_index(stage)].recompute.mode = Recompute::Mode::all;
  if (rows_are_fixed())
    make_schedule(plan, problem_.schedule);
  else
    schedule_plan(plan, problem_.schedule, cost_, problem_.memory_bytes);
  return plan;
}

Plan Family::any_plan() const {
  std::vector<int> cuts;
  for (int s = 1; s < stages(); ++s) cuts.push_back(s);
  std::vector<int> recomputed = problem_.recomputed;
  if (recomputes_for_memory()) {
    recomputed.clear();
    for (int s = 0; s < stages(); ++s) recomputed.push_back(s);
  }
  return plan(cuts, recomputed);
}

std::int64_t Family::copied_bytes(int stage, int cut) const {
  const std::vector<int>& from = problem_.stages[as_index(stage) - 1];
  const std::vector<int>& to = problem_.stages[as_index(stage)];
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < problem_.microbatch_sizes.size(); ++i) {
    if (from[i % from.size()] == to[i % to.size()]) continue;
    const int samples = problem_.microbatch_sizes[i];
    bytes += cost_.boundary_bytes(cut, samples, false) + cost_.boundary_bytes(cut, samples, true);
  }
  return bytes;
}

void Family::rate_memory(const Plan& plan, RatedCuts& rated) const {
  const std::vector<std::int64_t> peaks = cost_.peak_bytes(plan);
  rated.peak_bytes = *std::max_element(peaks.begin(), peaks.end());
  rated.excess_bytes = 0;
  rated.excess_device = -1;
  for (int d = 0; d < static_cast<int>(peaks.size()); ++d) {
    const std::int64_t over = peaks[as_index(d)] - cap(d);
    if (cap(d) <= 0 || over <= rated.excess_bytes) continue;
    rated.excess_bytes = over;
    rated.excess_device = d;
  }
}

// Returns the stages that are always recomputed, and those on devices that the plan would not fit.
std::vector<int> Family::recomputed_for_memory(const Plan& plan) const {
  const std::vector<std::int64_t> peaks = cost_.peak_bytes(plan);
  const auto asks = [&](int device) { return cap(device) > 0 && peaks[as_index(device)] > cap(device); };
  std::vector<int> recomputed;
  for (int s = 0; s < stages(); ++s) {
    const std::vector<int>& devices = problem_.stages[as_index(s)];
    if (always_recomputed(s) || std::any_of(devices.begin(), devices.end(), asks)) recomputed.push_back(s);
  }
  return recomputed;
}

RatedCuts Family::rate(const std::vector<int>& cuts) const {
  RatedCuts rated;
  rated.cuts = cuts;
  rated.recomputed = problem_.recomputed;
  Plan now = plan(cuts, rated.recomputed);
  rate_memory(now, rated);
  if (rated.excess_bytes > 0 && problem_.recompute_for_memory) {
    rated.recomputed = recomputed_for_memory(now);
    now = plan(cuts, rated.recomputed);
    rate_memory(now, rated);
    if (rated.excess_bytes > 0 && pieces_may_fit())
      rate_memory(with_smallest_peaks(plan(cuts, problem_.recomputed), problem_.memory_bytes, cost_), rated);
  }
  for (std::size_t s = 0; s < cuts.size(); ++s) rated.copied_bytes += copied_bytes(static_cast<int>(s) + 1, cuts[s]);
  if (rated.excess_bytes > 0) return rated;
  const Operations operations = list_operations(now, cost_);
  rated.step_ns = time_operations(operations).end_ns + operations.step_ns;
  return rated;
}

}  // namespace mptune::planner
