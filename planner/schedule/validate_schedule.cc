#include <algorithm>
#include <cstdint>
#include <map>

#include "planner/plan/plan_error.h"
#include "planner/schedule/layout.h"
#include "planner/schedule/schedule.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

constexpr std::uint8_t kForward = 1;
constexpr std::uint8_t kInput = 2;   // the gradient of the stage's input exists
constexpr std::uint8_t kWeight = 4;  // the gradient of its weights exists

std::uint8_t makes(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return kForward;
    case ActionKind::backward:
      return kInput | kWeight;
    case ActionKind::backward_input:
      return kInput;
    case ActionKind::backward_weight:
      return kWeight;
  }
  return 0;
}

// Runs the rows without times: an action ends as soon as its input exists.
class AbstractRun {
 public:
  AbstractRun(const Plan& plan, const std::string& where, int communication_buffers)
      : plan_(plan),
        where_(where),
        communication_buffers_(communication_buffers),
        done_(plan.stages.size() * plan.microbatch_sizes.size()),
        there_(done_.size()),
        next_(plan.actions.size()) {}

  void check_complete() {
    for (std::size_t d = 0; d < plan_.actions.size(); ++d)
      for (const Action& action : plan_.actions[d]) check_action(d, action);
    for (int s = 0; s < plan_.num_stages(); ++s)
      for (int i = 0; i < plan_.num_microbatches(); ++i) check_made(s, i);
  }

  void run() {
    bool progress = true;
    while (progress) {
      progress = false;
      for (std::size_t d = 0; d < next_.size(); ++d) progress |= advance(d);
    }
    for (std::size_t d = 0; d < next_.size(); ++d)
      if (next_[d] < plan_.actions[d].size()) report_deadlock();
  }

 private:
  std::uint8_t& done(int stage, int microbatch) { return done_[as_index(stage) * plan_.microbatch_sizes.size() + as_index(microbatch)]; }

  [[noreturn]] void refuse(const std::string& what, std::size_t device) {
    throw PlanError(what, where_ + ", row of " + plan_.devices[device], "correct the list of actions, or leave it out and name a schedule");
  }

  void check_action(std::size_t device, const Action& action) {
    const std::string text = "action " + to_text(action);
    if (action.stage < 0 || action.stage >= plan_.num_stages()) refuse(text + " names a stage that does not exist", device);
    if (action.microbatch < 0 || action.microbatch >= plan_.num_microbatches())
      refuse(text + " names a micro-batch that does not exist", device);
    if (action.further != 0) check_fused(device, action);
    for (int i = action.microbatch; i <= action.last_microbatch(); ++i) check_microbatch(device, action, i);
  }

  void check_fused(std::size_t device, const Action& action) {
    const std::string text = "action " + to_text(action);
    if (action.kind != ActionKind::backward_weight || action.further < 0) refuse(text + " fuses other work than weight gradients", device);
    if (action.further >= plan_.num_microbatches() - action.microbatch) refuse(text + " names a micro-batch that does not exist", device);
    if (const std::size_t replicas = plan_.stages[as_index(action.stage)].devices.size(); replicas > 1)
      refuse(text + " fuses neighbouring micro-batches, but these are on different replicas: micro-batch i is on replica i mod " +
                 std::to_string(replicas),
             device);
  }

  void check_microbatch(std::size_t device, const Action& action, int microbatch) {
    const std::string text = "action " + to_text(action);
    const int home = device_of(plan_.stages[as_index(action.stage)], microbatch);
    if (home != static_cast<int>(device)) refuse(text + " belongs to " + plan_.devices[as_index(home)], device);
    std::uint8_t& state = done(action.stage, microbatch);
    if ((state & makes(action.kind)) != 0) refuse(text + " repeats work that is listed before", device);
    if (action.kind != ActionKind::forward && (state & kForward) == 0) refuse(text + " stands before its forward", device);
    if (action.kind == ActionKind::backward_weight && (state & kInput) == 0) refuse(text + " stands before its input gradient", device);
    state = static_cast<std::uint8_t>(state | makes(action.kind));
  }

  void check_made(int stage, int microbatch) {
    const std::uint8_t state = done(stage, microbatch);
    if (state == (kForward | kInput | kWeight)) return;
    const char* missing = (state & kForward) == 0 ? "forward" : "backward";
    refuse(std::string(missing) + " of micro-batch " + std::to_string(microbatch) + " of stage " + std::to_string(stage) + " is missing",
           as_index(device_of(plan_.stages[as_index(stage)], microbatch)));
  }

  std::uint8_t& there(int stage, int microbatch) { return there_[as_index(stage) * plan_.microbatch_sizes.size() + as_index(microbatch)]; }

  // Returns what the action reads: kForward for an input, kInput for a gradient, 0 for nothing that another stage makes.
  [[nodiscard]] std::uint8_t reads(const Action& action) const {
    if (action.kind == ActionKind::forward) return action.stage == 0 ? 0 : kForward;
    if (action.kind == ActionKind::backward_weight || action.stage + 1 == plan_.num_stages()) return 0;
    return kInput;
  }

  bool ready(const Action& action) {
    const std::uint8_t read = reads(action);
    return (there(action.stage, action.microbatch) & read) == read;
  }

  // Copies between two devices in one direction: those that wait for a communication buffer, and the buffers that are taken.
  struct Link {
    std::vector<std::pair<Action, std::uint8_t>> sent;  // the consumer's stage and micro-batch, and what it reads
    std::size_t arrived = 0;
    int taken = 0;
  };

  Link* link_between(int from, int to, int microbatch) {
    const int source = device_of(plan_.stages[as_index(from)], microbatch);
    const int destination = device_of(plan_.stages[as_index(to)], microbatch);
    if (source == destination) return nullptr;
    return &links_[{source, destination}];
  }

  void deliver(Link& link) {
    while (link.arrived < link.sent.size() && (communication_buffers_ <= 0 || link.taken < communication_buffers_)) {
      const auto& [consumer, what] = link.sent[link.arrived++];
      std::uint8_t& state = there(consumer.stage, consumer.microbatch);
      state = static_cast<std::uint8_t>(state | what);
      ++link.taken;
    }
  }

  void send(const Action& action) {
    if (action.kind == ActionKind::backward_weight) return;
    const bool forward = action.kind == ActionKind::forward;
    const int to = forward ? action.stage + 1 : action.stage - 1;
    if (to < 0 || to >= plan_.num_stages()) return;
    const std::uint8_t what = forward ? kForward : kInput;
    if (Link* link = link_between(action.stage, to, action.microbatch)) {
      link->sent.push_back({{to, action.kind, action.microbatch}, what});
      deliver(*link);
    } else {
      std::uint8_t& state = there(to, action.microbatch);
      state = static_cast<std::uint8_t>(state | what);
    }
  }

  void release(const Action& action) {
    const std::uint8_t read = reads(action);
    if (read == 0) return;
    const int from = read == kForward ? action.stage - 1 : action.stage + 1;
    if (Link* link = link_between(from, action.stage, action.microbatch)) {
      --link->taken;
      deliver(*link);
    }
  }

  bool advance(std::size_t device) {
    const std::vector<Action>& row = plan_.actions[device];
    const std::size_t before = next_[device];
    while (next_[device] < row.size() && ready(row[next_[device]])) {
      const Action& action = row[next_[device]++];
      release(action);
      send(action);
    }
    return next_[device] != before;
  }

  [[noreturn]] void report_deadlock() {
    std::string standing;
    std::size_t shown = 0;
    for (std::size_t d = 0; d < next_.size(); ++d) {
      if (next_[d] >= plan_.actions[d].size()) continue;
      if (++shown > 8) break;
      standing += (standing.empty() ? "" : ", ") + plan_.devices[d] + " waits at " + to_text(plan_.actions[d][next_[d]]);
    }
    const std::string buffers =
        communication_buffers_ <= 0 ? "" : " with " + std::to_string(communication_buffers_) + " communication buffers per link";
    throw PlanError("the schedule blocks itself" + buffers + ": " + standing, where_,
                    "reorder the actions so that every input is made before it is waited for");
  }

  const Plan& plan_;
  const std::string& where_;
  int communication_buffers_;
  std::vector<std::uint8_t> done_;             // per stage and micro-batch: which actions are listed
  std::vector<std::uint8_t> there_;            // what can be read: kForward for the input, kInput for the gradient of the output
  std::map<std::pair<int, int>, Link> links_;  // by source and destination
  std::vector<std::size_t> next_;
};

void check_bytes(const Plan& plan, const std::string& where, const ScheduleCosts& costs) {
  for (std::size_t d = 0; d < costs.free_bytes.size(); ++d) {
    std::int64_t saved = 0;
    for (const Action& action : plan.actions[d]) {
      saved += bytes_left(costs.stages[as_index(action.stage)], action);
      if (saved <= costs.free_bytes[d]) continue;
      throw PlanError("action " + to_text(action) + " leaves " + std::to_string(saved) + " bytes of activations saved, " +
                          std::to_string(costs.free_bytes[d]) + " are free",
                      where + ", row of " + plan.devices[d], "use a schedule with fewer micro-batches in flight", ExitCode::infeasible);
    }
  }
}

}  // namespace

void validate_schedule(const Plan& plan, const std::string& where, const ScheduleLimits& limits) {
  if (plan.actions.size() != plan.devices.size())
    throw PlanError(
        "the schedule has " + std::to_string(plan.actions.size()) + " rows for " + std::to_string(plan.devices.size()) + " devices", where,
        "write one row of actions per device");
  std::size_t listed = 0;
  for (const std::vector<Action>& row : plan.actions) listed += row.size();
  // The length of a hostile file bounds the memory that the file can make us use.
  if (listed / 2 < plan.stages.size() || listed / 2 / plan.stages.size() < plan.microbatch_sizes.size())
    throw PlanError("the schedule lists " + std::to_string(listed) + " actions, too few for " + std::to_string(plan.num_stages()) +
                        " stages and " + std::to_string(plan.num_microbatches()) + " micro-batches",
                    where, "list forward and backward of every micro-batch of every stage");
  AbstractRun run(plan, where, limits.communication_buffers);
  run.check_complete();
  run.run();
  if (limits.costs != nullptr) check_bytes(plan, where, *limits.costs);
}

int most_in_flight(const Plan& plan, int stage) {
  const int device = plan.stages[as_index(stage)].devices.front();
  int in_flight = 0;
  int most = 0;
  for (const Action& action : plan.actions[as_index(device)]) {
    if (action.stage != stage) continue;
    if (action.kind == ActionKind::forward) most = std::max(most, ++in_flight);
    if (action.kind == ActionKind::backward || action.kind == ActionKind::backward_weight) in_flight -= 1 + action.further;
  }
  return most;
}

}  // namespace mptune::planner
