#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "planner/simulate/operations.h"
#include "planner/simulate/simulate.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

// Nanoseconds of one micro-batch's work on one stage, and of the longest chains of the micro-batch's own operations before and after it.
// A copy belongs to the stage that sends it. `backward` is what the previous stage waits for: a full backward, or the input gradients,
// which `weight` follows. Idle devices that help may compute its layers at the same time: then only the longest is a chain.
struct Visit {
  std::int64_t forward = 0;
  std::int64_t recompute = 0;
  std::int64_t backward = 0;
  std::int64_t weight = 0;
  std::int64_t weight_chain = 0;
  std::int64_t send_output = 0;
  std::int64_t send_gradient = 0;
  std::int64_t before_forward = 0;
  std::int64_t before_backward = 0;
  std::int64_t after_forward = 0;
  std::int64_t after_backward = 0;
  int output_lane = -1;
  int gradient_lane = -1;
};

class Visits {
 public:
  Visits(const Plan& plan, const Operations& operations)
      : stages_(plan.stages.size()), microbatches_(plan.microbatch_sizes.size()), visits_(stages_ * microbatches_) {
    for (const Operation& operation : operations.list)
      if (operation.phase == Phase::actions) add(operations, operation);
    for (std::size_t i = 0; i < microbatches_; ++i) {
      chain_before(i);
      chain_after(i);
    }
  }

  [[nodiscard]] const Visit& at(std::size_t stage, std::size_t microbatch) const { return visits_[stage * microbatches_ + microbatch]; }

 private:
  Visit& at(std::size_t stage, std::size_t microbatch) { return visits_[stage * microbatches_ + microbatch]; }

  void add(const Operations& operations, const Operation& operation) {
    Visit& visit = at(as_index(operation.stage), as_index(operation.microbatch));
    if (operation.kind == EventKind::copy) {
      const bool output = operations.list[as_index(operation.input)].kind == EventKind::forward;
      (output ? visit.send_output : visit.send_gradient) = operation.alone_ns;
      (output ? visit.output_lane : visit.gradient_lane) = operation.lane;
    } else if (operation.kind == EventKind::forward) {
      visit.forward = operation.alone_ns;
    } else if (operation.kind == EventKind::recompute) {
      visit.recompute = operation.alone_ns;
    } else if (operation.kind == EventKind::backward_weight) {
      const std::int64_t work = operation.alone_ns - (operation.layer >= 0 ? operation.overhead_ns : 0);
      visit.weight += work;
      visit.weight_chain = std::max(visit.weight_chain, work);
    } else {
      visit.backward = operation.alone_ns;
    }
  }

  void chain_before(std::size_t i) {
    for (std::size_t s = 1; s < stages_; ++s) {
      const Visit& from = at(s - 1, i);
      at(s, i).before_forward = from.before_forward + from.forward + from.send_output;
    }
    for (std::size_t s = stages_; s-- > 0;) {
      Visit& visit = at(s, i);
      visit.before_backward = visit.before_forward + visit.forward + visit.recompute;
      if (s + 1 == stages_) continue;
      const Visit& from = at(s + 1, i);
      visit.before_backward = std::max(visit.before_backward, from.before_backward + from.backward + from.send_gradient);
    }
  }

  void chain_after(std::size_t i) {
    for (std::size_t s = 0; s < stages_; ++s) {
      Visit& visit = at(s, i);
      visit.after_backward = visit.weight_chain;
      if (s == 0) continue;
      const Visit& next = at(s - 1, i);
      visit.after_backward = std::max(visit.after_backward, visit.send_gradient + next.backward + next.after_backward);
    }
    for (std::size_t s = stages_; s-- > 0;) {
      Visit& visit = at(s, i);
      visit.after_forward = visit.recompute + visit.backward + visit.after_backward;
      if (s + 1 == stages_) continue;
      const Visit& next = at(s + 1, i);
      visit.after_forward = std::max(visit.after_forward, visit.send_output + next.forward + next.after_forward);
    }
  }

  std::size_t stages_;
  std::size_t microbatches_;
  std::vector<Visit> visits_;
};

// Work on one lane. It cannot begin before `head`, and its micro-batch needs at least `tail` after it.
struct Job {
  std::int64_t head = 0;
  std::int64_t work = 0;
  std::int64_t tail = 0;
};

// The jobs of every lane. Successive jobs of equal head and tail are merged, which changes no bound.
class Jobs {
 public:
  explicit Jobs(int lanes) : lanes_(as_index(lanes)) {}

  void add(int lane, const Job& job) {
    std::vector<Job>& jobs = lanes_[as_index(lane)];
    if (!jobs.empty() && jobs.back().head == job.head && jobs.back().tail == job.tail)
      jobs.back().work += job.work;
    else if (job.work > 0)
      jobs.push_back(job);
  }

  [[nodiscard]] std::int64_t bound() {
    std::int64_t most = 0;
    for (std::vector<Job>& jobs : lanes_) most = std::max(most, bound(jobs));
    return most;
  }

 private:
  // The least makespan of one machine with preemption: it always runs the ready job with the longest tail (J. R. Jackson, 1955; J. Carlier,
  // 1982). It equals the maximum, over all sets of jobs, of least head + total work + least tail.
  static std::int64_t bound(std::vector<Job>& jobs) {
    std::ranges::sort(jobs, {}, &Job::head);
    std::vector<Job> ready;
    std::int64_t now = 0;
    std::int64_t end = 0;
    for (std::size_t next = 0; next < jobs.size() || !ready.empty();) {
      if (ready.empty()) now = std::max(now, jobs[next].head);
      for (; next < jobs.size() && jobs[next].head <= now; ++next) {
        ready.push_back(jobs[next]);
        std::ranges::push_heap(ready, {}, &Job::tail);
      }
      const std::int64_t until = next < jobs.size() ? jobs[next].head : std::numeric_limits<std::int64_t>::max();
      const std::int64_t run = std::min(ready.front().work, until - now);
      now += run;
      ready.front().work -= run;
      if (ready.front().work > 0) continue;
      end = std::max(end, now + ready.front().tail);
      std::ranges::pop_heap(ready, {}, &Job::tail);
      ready.pop_back();
    }
    return end;
  }

  std::vector<std::vector<Job>> lanes_;
};

void add_forwards(const Plan& plan, const Visits& visits, std::size_t s, Jobs& jobs) {
  for (std::size_t i = 0; i < plan.microbatch_sizes.size(); ++i) {
    const Visit& visit = visits.at(s, i);
    jobs.add(device_of(plan.stages[s], static_cast<int>(i)), {visit.before_forward, visit.forward, visit.after_forward});
    if (visit.output_lane < 0) continue;
    const Visit& next = visits.at(s + 1, i);
    jobs.add(visit.output_lane, {visit.before_forward + visit.forward, visit.send_output, next.forward + next.after_forward});
  }
}

// Early recomputation may run while the gradient is being copied, and no other action comes between it and its backward. So both are one
// job, whose head lets the recomputation end when the gradient arrives.
void add_backwards(const Plan& plan, const Visits& visits, std::size_t s, Jobs& jobs) {
  for (std::size_t i = 0; i < plan.microbatch_sizes.size(); ++i) {
    const Visit& visit = visits.at(s, i);
    jobs.add(device_of(plan.stages[s], static_cast<int>(i)),
             {visit.before_backward - visit.recompute, visit.recompute + visit.backward, visit.after_backward});
    if (visit.gradient_lane < 0) continue;
    const Visit& next = visits.at(s - 1, i);
    jobs.add(visit.gradient_lane, {visit.before_backward + visit.backward, visit.send_gradient, next.backward + next.after_backward});
  }
}

// Those that other devices may compute are no job of their owner.
void add_weights(const Plan& plan, const Visits& visits, const std::vector<int>& helpers, std::size_t s, Jobs& jobs) {
  for (std::size_t i = 0; i < plan.microbatch_sizes.size(); ++i) {
    const Visit& visit = visits.at(s, i);
    const int device = device_of(plan.stages[s], static_cast<int>(i));
    if (!helpers.empty() && helpers[as_index(device)] >= 0) continue;
    jobs.add(device, {visit.before_backward + visit.backward, visit.weight, 0});
  }
}

// Devices that help one another share the weight gradients. None works before its own first action or the first weight gradient is ready.
class SharedWork {
 public:
  SharedWork(const Plan& plan, const Operations& operations, const Visits& visits) : groups_(operations.helpers) {
    first_.assign(groups_.size(), kNever);
    for (std::size_t s = 0; s < plan.stages.size(); ++s)
      for (std::size_t i = 0; i < plan.microbatch_sizes.size(); ++i) add(device_of(plan.stages[s], static_cast<int>(i)), visits.at(s, i));
  }

  [[nodiscard]] std::int64_t bound() const {
    std::int64_t most = 0;
    for (const int group : std::set<int>(groups_.begin(), groups_.end()))
      if (group >= 0) most = std::max(most, bound(group));
    return most;
  }

 private:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  struct Sum {
    std::int64_t work = 0;
    std::int64_t first_weight = kNever;
  };

  void add(int device, const Visit& visit) {
    std::int64_t& first = first_[as_index(device)];
    first = std::min(first, visit.before_forward);
    Sum& sum = sums_[groups_[as_index(device)]];
    sum.work += visit.forward + visit.recompute + visit.backward + visit.weight;
    if (visit.output_lane == device) sum.work += visit.send_output;
    if (visit.gradient_lane == device) sum.work += visit.send_gradient;
    sum.first_weight = std::min(sum.first_weight, visit.before_backward + visit.backward);
  }

  [[nodiscard]] std::int64_t bound(int group) const {
    const auto found = sums_.find(group);
    if (found == sums_.end()) return 0;
    std::int64_t sum = found->second.work;
    std::int64_t devices = 0;
    for (std::size_t d = 0; d < groups_.size(); ++d) {
      if (groups_[d] != group) continue;
      sum += std::min(first_[d], found->second.first_weight);
      ++devices;
    }
    return (sum + devices - 1) / devices;
  }

  const std::vector<int>& groups_;
  std::vector<std::int64_t> first_;  // per device: when its first action can begin
  std::map<int, Sum> sums_;          // per group
};

std::int64_t end_phase_ns(const Operations& operations) {
  Operations end;
  end.devices = operations.devices;
  end.lanes = operations.lanes;
  for (const Operation& operation : operations.list)
    if (operation.phase != Phase::actions) end.list.push_back(operation);
  return time_operations(end).end_ns;
}

}  // namespace

std::int64_t lower_bound_ns(const Plan& plan, const Operations& operations) {
  const Visits visits(plan, operations);
  Jobs jobs(operations.lanes);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    add_forwards(plan, visits, s, jobs);
    add_backwards(plan, visits, s, jobs);
    add_weights(plan, visits, operations.helpers, s, jobs);
  }
  const std::int64_t shared = operations.helpers.empty() ? 0 : SharedWork(plan, operations, visits).bound();
  return std::max(jobs.bound(), shared) + end_phase_ns(operations) + operations.step_ns;
}

}  // namespace mptune::planner

namespace mptune {

double lower_bound_seconds(const Plan& plan, const CostModel& cost) {
  return static_cast<double>(planner::lower_bound_ns(plan, planner::list_operations(plan, cost))) * 1e-9;
}

}  // namespace mptune
