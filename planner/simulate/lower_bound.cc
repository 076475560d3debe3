#include <algorithm>
#include <limits>

#include "mptune/planner/simulate/operations.h"
#include "mptune/planner/simulate/simulate.h"

namespace mptune {
namespace {

constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max() / 4;

// Prices of one micro-batch on one stage; a copy belongs to the stage that sends it.
struct Visit {
  std::int64_t forward = 0;
  std::int64_t backward = 0;
  std::int64_t recompute = 0;
  std::int64_t send_output = 0;
  std::int64_t send_gradient = 0;
  std::int64_t before = 0;  // least time from the start of the step to this forward
  std::int64_t after = 0;   // from the end of this backward to the micro-batch's last
  std::int64_t round = 0;   // from the end of this forward to the arrival of its gradient
  bool returned = false;    // its backward has been seen
};

class Visits {
 public:
  Visits(const Plan& plan, const Operations& operations)
      : stages_(plan.stages.size()), microbatches_(plan.microbatch_sizes.size()), visits_(stages_ * microbatches_) {
    for (const Operation& operation : operations.list) {
      if (operation.phase == Phase::actions) add(operation);
    }
    for (std::size_t i = 0; i < microbatches_; ++i) chain(i);
  }

  [[nodiscard]] const Visit& at(std::size_t stage, std::size_t microbatch) const { return visits_[stage * microbatches_ + microbatch]; }

 private:
  Visit& at(std::size_t stage, std::size_t microbatch) { return visits_[stage * microbatches_ + microbatch]; }

  void add(const Operation& operation) {
    const auto stage = static_cast<std::size_t>(operation.stage);
    Visit& visit = at(stage, static_cast<std::size_t>(operation.microbatch));
    if (operation.what == What::forward) visit.forward = operation.alone_ns;
    if (operation.what == What::recompute) visit.recompute = operation.alone_ns;
    // Copies are listed behind what made them: those before the backward carry an output, the other the gradient.
    if (operation.what == What::copy) (visit.returned ? visit.send_gradient : visit.send_output) = operation.alone_ns;
    if (operation.what != What::backward) return;
    visit.backward = operation.alone_ns;
    visit.returned = true;
  }

  void chain(std::size_t i) {
    for (std::size_t s = 1; s < stages_; ++s) {
      const Visit& last = at(s - 1, i);
      at(s, i).before = last.before + last.forward + last.send_output;
      at(s, i).after = last.after + last.backward + at(s, i).send_gradient;
    }
    for (std::size_t s = stages_ - 1; s-- > 0;) {
      const Visit& next = at(s + 1, i);
      at(s, i).round = at(s, i).send_output + next.forward + next.round + next.backward + next.send_gradient;
    }
  }

  std::size_t stages_;
  std::size_t microbatches_;
  std::vector<Visit> visits_;
};

// What one device has to do, and the least that has to come before, between and after.
struct DeviceLoad {
  std::int64_t forward = 0;
  std::int64_t backward = 0;
  std::int64_t recompute = 0;
  std::int64_t most_recompute = 0;
  std::int64_t before = kFar;
  std::int64_t after = kFar;
  std::int64_t to_gradient = kFar;  // from the start of a forward to the arrival of its gradient
  std::int64_t to_backward = kFar;  // from the end of a forward to the end of its backward

  void add(const Visit& visit) {
    forward += visit.forward;
    backward += visit.backward;
    recompute += visit.recompute;
    most_recompute = std::max(most_recompute, visit.recompute);
    before = std::min(before, visit.before);
    after = std::min(after, visit.after);
    to_gradient = std::min(to_gradient, visit.forward + visit.round);
    to_backward = std::min(to_backward, visit.round + visit.backward);
  }

  // The device is busy, or runs all forwards before the last gradient is back, or waits for the first gradient and then runs all
  // backwards (of which only the first may have been recomputed while it waited).
  [[nodiscard]] std::int64_t bound(bool one_stage) const {
    if (before == kFar) return 0;
    std::int64_t between = forward + backward + recompute;
    if (one_stage) {
      between = std::max(between, forward + to_backward);
      between = std::max(between, to_gradient + backward + recompute - most_recompute);
    }
    return before + between + after;
  }
};

std::int64_t end_phase_ns(const Operations& operations) {
  Operations end;
  end.devices = operations.devices;
  end.lanes = operations.lanes;
  for (const Operation& operation : operations.list) {
    if (operation.phase != Phase::actions) end.list.push_back(operation);
  }
  return time_operations(end).end_ns;
}

}  // namespace

std::int64_t lower_bound_ns(const Plan& plan, const Operations& operations) {
  const Visits visits(plan, operations);
  std::vector<DeviceLoad> loads(plan.devices.size());
  std::vector<int> stages_on(plan.devices.size(), 0);
  std::int64_t bound = 0;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    for (const int device : plan.stages[s].devices) ++stages_on[static_cast<std::size_t>(device)];
    for (std::size_t i = 0; i < plan.microbatch_sizes.size(); ++i) {
      const Visit& visit = visits.at(s, i);
      loads[static_cast<std::size_t>(device_of(plan.stages[s], static_cast<int>(i)))].add(visit);
      if (s == 0) bound = std::max(bound, visit.forward + visit.round + visit.backward);
    }
  }
  for (std::size_t d = 0; d < loads.size(); ++d) bound = std::max(bound, loads[d].bound(stages_on[d] == 1));
  return bound + end_phase_ns(operations) + operations.step_ns;
}

double lower_bound_seconds(const Plan& plan, const CostModel& cost) {
  return static_cast<double>(lower_bound_ns(plan, list_operations(plan, cost))) * 1e-9;
}

}  // namespace mptune
