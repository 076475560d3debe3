#include "mptune/planner/partition/family.h"

#include <algorithm>
#include <tuple>

#include "mptune/planner/schedule/schedule.h"
#include "mptune/planner/simulate/operations.h"
#include "mptune/profiler/trace/error.h"

namespace mptune {
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
  for (const std::string& name : problem.devices) static_cast<void>(cost.device_index(name));
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
  return problem_.memory_bytes.empty() ? 0 : problem_.memory_bytes[static_cast<std::size_t>(device)];
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
  for (const int stage : recomputed) plan.stages[static_cast<std::size_t>(stage)].recompute.mode = Recompute::Mode::all;
  make_schedule(plan, problem_.schedule);
  return plan;
}

std::int64_t Family::copied_bytes(const std::vector<int>& cuts) const {
  std::int64_t bytes = 0;
  for (std::size_t s = 0; s < cuts.size(); ++s) {
    const std::vector<int>& from = problem_.stages[s];
    const std::vector<int>& to = problem_.stages[s + 1];
    for (std::size_t i = 0; i < problem_.microbatch_sizes.size(); ++i) {
      if (from[i % from.size()] == to[i % to.size()]) continue;
      const int samples = problem_.microbatch_sizes[i];
      bytes += cost_.boundary_bytes(cuts[s], samples, false) + cost_.boundary_bytes(cuts[s], samples, true);
    }
  }
  return bytes;
}

void Family::rate_memory(const Plan& plan, RatedCuts& rated) const {
  const std::vector<std::int64_t> peaks = cost_.peak_bytes(plan);
  rated.peak_bytes = *std::max_element(peaks.begin(), peaks.end());
  rated.excess_bytes = 0;
  rated.excess_device = -1;
  for (int d = 0; d < static_cast<int>(peaks.size()); ++d) {
    const std::int64_t over = peaks[static_cast<std::size_t>(d)] - cap(d);
    if (cap(d) <= 0 || over <= rated.excess_bytes) continue;
    rated.excess_bytes = over;
    rated.excess_device = d;
  }
}

RatedCuts Family::rate(const std::vector<int>& cuts) const {
  RatedCuts rated;
  rated.cuts = cuts;
  rated.recomputed = problem_.recomputed;
  Plan now = plan(cuts, rated.recomputed);
  rate_memory(now, rated);
  if (rated.excess_bytes > 0 && problem_.recompute_for_memory) {
    const std::vector<std::int64_t> peaks = cost_.peak_bytes(now);
    for (int s = 0; s < now.num_stages(); ++s) {
      const std::vector<int>& devices = problem_.stages[static_cast<std::size_t>(s)];
      const bool asks =
          std::any_of(devices.begin(), devices.end(), [&](int d) { return cap(d) > 0 && peaks[static_cast<std::size_t>(d)] > cap(d); });
      if (asks) rated.recomputed.push_back(s);
    }
    std::sort(rated.recomputed.begin(), rated.recomputed.end());
    rated.recomputed.erase(std::unique(rated.recomputed.begin(), rated.recomputed.end()), rated.recomputed.end());
    now = plan(cuts, rated.recomputed);
    rate_memory(now, rated);
  }
  if (rated.excess_bytes > 0) return rated;
  const Operations operations = list_operations(now, cost_);
  rated.step_ns = time_operations(operations).end_ns + operations.step_ns;
  rated.copied_bytes = copied_bytes(cuts);
  return rated;
}

}  // namespace mptune
