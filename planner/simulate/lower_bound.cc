#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "planner/simulate/operations.h"
#include "planner/simulate/simulate.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

// A copy. Without a lane there is no copy: both stages are on one device, or nothing is offloaded.
struct Sending {
  std::int64_t ns = 0;
  int lane = -1;
};

// Nanoseconds of one micro-batch's work on one stage, and of the longest chains of the micro-batch's own operations before and after it.
// `backward` is what the previous stage waits for: a full backward, or the input gradients, which `weight` follows. Idle devices that help
// may compute the layers of `weight` at the same time; then only the longest layer is a chain.
struct Visit {
  std::int64_t forward = 0;
  std::int64_t recompute = 0;
  std::int64_t backward = 0;
  std::int64_t weight = 0;
  std::int64_t weight_chain = 0;
  std::int64_t before_forward = 0;
  std::int64_t before_backward = 0;
  std::int64_t after_forward = 0;
  std::int64_t after_backward = 0;
  Sending to_host;  // copy of what is saved, after the forward
  Sending from_host;
  [[nodiscard]] std::int64_t away() const { return to_host.ns + from_host.ns; }
};

class Visits {
 public:
  Visits(const Plan& plan, const Operations& operations)
      : flows_(operations.flows),
        stages_(plan.stages.size()),
        microbatches_(plan.microbatch_sizes.size()),
        visits_(stages_ * microbatches_),
        outputs_(flows_.size() * microbatches_),
        gradients_(outputs_),
        before_(stages_),
        behind_(stages_) {
    for (std::size_t f = 0; f < flows_.size(); ++f) {
      before_[as_index(flows_[f].back)].push_back(f);
      behind_[as_index(flows_[f].front)].push_back(f);
    }
    for (const Operation& operation : operations.list)
      if (operation.phase == Phase::actions) add(operation);
    chain_all();
  }

  /// Makes each backward as short as the shorter of both objects, whole or in two parts. Requires: the same stages and micro-batches.
  void shorten_backwards(const Visits& other) {
    for (std::size_t v = 0; v < visits_.size(); ++v) {
      Visit& visit = visits_[v];
      const Visit& also = other.visits_[v];
      const std::int64_t both = std::min(visit.backward + visit.weight, also.backward + also.weight);
      visit.backward = std::min(visit.backward, also.backward);
      visit.weight = visit.weight_chain = both - visit.backward;
      visit.recompute = std::min(visit.recompute, also.recompute);
    }
    chain_all();
  }

  [[nodiscard]] const Visit& at(std::size_t stage, std::size_t microbatch) const { return visits_[stage * microbatches_ + microbatch]; }
  [[nodiscard]] const Visit& at(int stage, std::size_t microbatch) const { return at(as_index(stage), microbatch); }
  [[nodiscard]] const Sending& output(std::size_t flow, std::size_t microbatch) const {
    return outputs_[flow * microbatches_ + microbatch];
  }
  [[nodiscard]] const Sending& gradient(std::size_t flow, std::size_t microbatch) const {
    return gradients_[flow * microbatches_ + microbatch];
  }
  [[nodiscard]] const StageFlow& flow(std::size_t f) const { return flows_[f]; }
  /// These return the flows to a stage, and from it.
  [[nodiscard]] const std::vector<std::size_t>& before(std::size_t stage) const { return before_[stage]; }
  [[nodiscard]] const std::vector<std::size_t>& behind(std::size_t stage) const { return behind_[stage]; }

 private:
  Visit& at(std::size_t stage, std::size_t microbatch) { return visits_[stage * microbatches_ + microbatch]; }

  void add(const Operation& operation) {
    const auto i = as_index(operation.microbatch);
    Visit& visit = at(as_index(operation.stage), i);
    if (operation.host != HostCopy::none) {
      (operation.host == HostCopy::to_host ? visit.to_host : visit.from_host) = {operation.alone_ns, operation.lane};
    } else if (operation.kind == EventKind::copy) {
      const auto f = as_index(operation.flow);
      (operation.stage == flows_[f].front ? outputs_ : gradients_)[f * microbatches_ + i] = {operation.alone_ns, operation.lane};
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

  void chain_all() {
    for (Visit& visit : visits_) visit.before_forward = visit.before_backward = visit.after_forward = visit.after_backward = 0;
    for (std::size_t i = 0; i < microbatches_; ++i) {
      chain_before(i);
      chain_after(i);
    }
  }

  void chain_before(std::size_t i) {
    for (std::size_t s = 0; s < stages_; ++s)
      for (const std::size_t f : before_[s]) {
        const Visit& from = at(as_index(flows_[f].front), i);
        std::int64_t& before = at(s, i).before_forward;
        before = std::max(before, from.before_forward + from.forward + output(f, i).ns);
      }
    for (std::size_t s = stages_; s-- > 0;) {
      Visit& visit = at(s, i);
      visit.before_backward = visit.before_forward + visit.forward + visit.away() + visit.recompute;
      for (const std::size_t f : behind_[s]) {
        if (!flows_[f].needs_gradient) continue;
        const Visit& from = at(as_index(flows_[f].back), i);
        visit.before_backward = std::max(visit.before_backward, from.before_backward + from.backward + gradient(f, i).ns);
      }
    }
  }

  void chain_after(std::size_t i) {
    for (std::size_t s = 0; s < stages_; ++s) {
      Visit& visit = at(s, i);
      visit.after_backward = visit.weight_chain;
      for (const std::size_t f : before_[s]) {
        if (!flows_[f].needs_gradient) continue;
        const Visit& next = at(as_index(flows_[f].front), i);
        visit.after_backward = std::max(visit.after_backward, gradient(f, i).ns + next.backward + next.after_backward);
      }
    }
    for (std::size_t s = stages_; s-- > 0;) {
      Visit& visit = at(s, i);
      visit.after_forward = visit.away() + visit.recompute + visit.backward + visit.after_backward;
      for (const std::size_t f : behind_[s]) {
        const Visit& next = at(as_index(flows_[f].back), i);
        visit.after_forward = std::max(visit.after_forward, output(f, i).ns + next.forward + next.after_forward);
      }
    }
  }

  const std::vector<StageFlow>& flows_;
  std::size_t stages_;
  std::size_t microbatches_;
  std::vector<Visit> visits_;
  std::vector<Sending> outputs_;    // by flow and micro-batch
  std::vector<Sending> gradients_;  // by flow and micro-batch
  std::vector<std::vector<std::size_t>> before_;
  std::vector<std::vector<std::size_t>> behind_;
};

// Work on one lane. It cannot begin before `head`, and its micro-batch needs at least `tail` after the work.
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
  // Returns the least makespan of one machine with preemption: it always runs the ready job with the longest tail (J. R. Jackson, 1955; J.
  // Carlier, 1982). It equals the maximum, over all sets of jobs, of least head + total work + least tail.
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
    for (const std::size_t f : visits.behind(s)) {
      const Sending& sending = visits.output(f, i);
      const Visit& next = visits.at(visits.flow(f).back, i);
      if (sending.lane >= 0) jobs.add(sending.lane, {visit.before_forward + visit.forward, sending.ns, next.forward + next.after_forward});
    }
  }
}

// Adds the copies between a micro-batch's forward and its backward.
void add_host_copies(const Plan& plan, const Visits& visits, std::size_t s, Jobs& jobs) {
  for (std::size_t i = 0; i < plan.microbatch_sizes.size(); ++i) {
    const Visit& visit = visits.at(s, i);
    if (visit.to_host.lane < 0) continue;
    const std::int64_t head = visit.before_forward + visit.forward;
    const std::int64_t tail = visit.backward + visit.after_backward;
    jobs.add(visit.to_host.lane, {head, visit.to_host.ns, visit.from_host.ns + tail});
    jobs.add(visit.from_host.lane, {head + visit.to_host.ns, visit.from_host.ns, tail});
  }
}

// Early recomputation may run while the gradient is being copied, and no other action comes between it and its backward. So both are one
// job, whose head lets the recomputation end when the gradient arrives.
void add_backwards(const Plan& plan, const Visits& visits, std::size_t s, Jobs& jobs) {
  for (std::size_t i = 0; i < plan.microbatch_sizes.size(); ++i) {
    const Visit& visit = visits.at(s, i);
    jobs.add(device_of(plan.stages[s], static_cast<int>(i)),
             {visit.before_backward - visit.recompute, visit.recompute + visit.backward, visit.after_backward});
    for (const std::size_t f : visits.before(s)) {
      const Sending& sending = visits.gradient(f, i);
      const Visit& next = visits.at(visits.flow(f).front, i);
      if (sending.lane >= 0)
        jobs.add(sending.lane, {visit.before_backward + visit.backward, sending.ns, next.backward + next.after_backward});
    }
  }
}

// Weight gradients that other devices may compute are no job of their owner.
void add_weights(const Plan& plan, const Visits& visits, const std::vector<int>& helpers, std::size_t s, Jobs& jobs) {
  for (std::size_t i = 0; i < plan.microbatch_sizes.size(); ++i) {
    const Visit& visit = visits.at(s, i);
    const int device = device_of(plan.stages[s], static_cast<int>(i));
    if (!helpers.empty() && helpers[as_index(device)] >= 0) continue;
    jobs.add(device, {visit.before_backward + visit.backward, visit.weight, 0});
  }
}

// Devices that help one another share the weight gradients. No device works before its own first action or the first weight gradient is
// ready.
class SharedWork {
 public:
  SharedWork(const Plan& plan, const Operations& operations, const Visits& visits) : groups_(operations.helpers) {
    first_.assign(groups_.size(), kNever);
    for (std::size_t s = 0; s < plan.stages.size(); ++s)
      for (std::size_t i = 0; i < plan.microbatch_sizes.size(); ++i)
        add(device_of(plan.stages[s], static_cast<int>(i)), visits.at(s, i), sent_itself(plan, visits, s, i));
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

  // Returns the time that the device of a stage copies in its own lane.
  static std::int64_t sent_itself(const Plan& plan, const Visits& visits, std::size_t s, std::size_t i) {
    const int device = device_of(plan.stages[s], static_cast<int>(i));
    std::int64_t ns = 0;
    const auto add = [&](const Sending& sending) { ns += sending.lane == device ? sending.ns : 0; };
    for (const std::size_t f : visits.behind(s)) add(visits.output(f, i));
    for (const std::size_t f : visits.before(s)) add(visits.gradient(f, i));
    return ns;
  }

  void add(int device, const Visit& visit, std::int64_t sent_itself) {
    std::int64_t& first = first_[as_index(device)];
    first = std::min(first, visit.before_forward);
    Sum& sum = sums_[groups_[as_index(device)]];
    sum.work += visit.forward + visit.recompute + visit.backward + visit.weight + sent_itself;
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

std::int64_t lower_bound_of(const Plan& plan, const Operations& operations, const Visits& visits) {
  Jobs jobs(operations.lanes);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    add_forwards(plan, visits, s, jobs);
    add_host_copies(plan, visits, s, jobs);
    add_backwards(plan, visits, s, jobs);
    add_weights(plan, visits, operations.helpers, s, jobs);
  }
  const std::int64_t shared = operations.helpers.empty() ? 0 : SharedWork(plan, operations, visits).bound();
  return std::max(jobs.bound(), shared) + end_phase_ns(operations) + operations.step_ns;
}

/// Returns the plan with all backwards whole, or all in two parts. The bound does not depend on their order.
Plan with_backwards(Plan plan, bool split) {
  plan.options.idle_devices_help = false;
  for (std::vector<Action>& row : plan.actions) {
    std::vector<Action> made;
    for (Action action : row) {
      if (action.kind == ActionKind::backward_weight) continue;
      const bool back = action.kind == ActionKind::backward || action.kind == ActionKind::backward_input;
      if (back) action.kind = split ? ActionKind::backward_input : ActionKind::backward;
      made.push_back(action);
      if (back && split) {
        action.kind = ActionKind::backward_weight;
        made.push_back(action);
      }
    }
    row = std::move(made);
  }
  return plan;
}

}  // namespace

std::int64_t lower_bound_ns(const Plan& plan, const Operations& operations) {
  return lower_bound_of(plan, operations, Visits(plan, operations));
}

}  // namespace mptune::planner

namespace mptune {

double lower_bound_seconds(const Plan& plan, const CostModel& cost) {
  return static_cast<double>(planner::lower_bound_ns(plan, planner::list_operations(plan, cost))) * 1e-9;
}

double lower_bound_of_any_schedule_seconds(const Plan& plan, const CostModel& cost) {
  const Plan split = planner::with_backwards(plan, true);
  const Plan whole = planner::with_backwards(plan, false);
  const planner::Operations operations = planner::list_operations(split, cost);
  planner::Visits visits(split, operations);
  visits.shorten_backwards(planner::Visits(whole, planner::list_operations(whole, cost)));
  return static_cast<double>(planner::lower_bound_of(split, operations, visits)) * 1e-9;
}

}  // namespace mptune
