#include <algorithm>
#include <cstdint>

#include "mptune/planner/schedule/schedule.h"
#include "mptune/profiler/trace/error.h"

namespace mptune {
namespace {

constexpr std::uint8_t kForward = 1;
constexpr std::uint8_t kInput = 2;   // the gradient of the stage's input exists
constexpr std::uint8_t kWeight = 4;  // so does that of its weights

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

// Runs the rows with no notion of time: an action is done as soon as what it reads exists.
class AbstractRun {
 public:
  AbstractRun(const Plan& plan, const std::string& where)
      : plan_(plan), where_(where), done_(plan.stages.size() * plan.microbatch_sizes.size()), next_(plan.actions.size()) {}

  void check_complete() {
    for (std::size_t d = 0; d < plan_.actions.size(); ++d) {
      for (const Action& action : plan_.actions[d]) check_action(d, action);
    }
    for (int s = 0; s < plan_.num_stages(); ++s) {
      for (int i = 0; i < plan_.num_microbatches(); ++i) check_made(s, i);
    }
    std::fill(done_.begin(), done_.end(), std::uint8_t{0});
  }

  void run() {
    bool progress = true;
    while (progress) {
      progress = false;
      for (std::size_t d = 0; d < next_.size(); ++d) progress |= advance(d);
    }
    for (std::size_t d = 0; d < next_.size(); ++d) {
      if (next_[d] < plan_.actions[d].size()) report_deadlock();
    }
  }

 private:
  std::uint8_t& done(int stage, int microbatch) {
    return done_[static_cast<std::size_t>(stage) * plan_.microbatch_sizes.size() + static_cast<std::size_t>(microbatch)];
  }

  [[noreturn]] void refuse(const std::string& what, std::size_t device) {
    throw Error(what, where_ + ", row of " + plan_.devices[device], "correct the list of actions, or leave it out and name a schedule");
  }

  void check_action(std::size_t device, const Action& action) {
    const std::string text = "action " + to_text(action);
    if (action.stage < 0 || action.stage >= plan_.num_stages()) refuse(text + " names a stage that does not exist", device);
    if (action.microbatch < 0 || action.microbatch >= plan_.num_microbatches())
      refuse(text + " names a micro-batch that does not exist", device);
    const int home = device_of(plan_.stages[static_cast<std::size_t>(action.stage)], action.microbatch);
    if (home != static_cast<int>(device)) refuse(text + " belongs to " + plan_.devices[static_cast<std::size_t>(home)], device);
    std::uint8_t& state = done(action.stage, action.microbatch);
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
           static_cast<std::size_t>(device_of(plan_.stages[static_cast<std::size_t>(stage)], microbatch)));
  }

  bool ready(const Action& action) {
    if (action.kind == ActionKind::forward) return action.stage == 0 || (done(action.stage - 1, action.microbatch) & kForward) != 0;
    if (action.kind == ActionKind::backward_weight || action.stage + 1 == plan_.num_stages()) return true;
    return (done(action.stage + 1, action.microbatch) & kInput) != 0;
  }

  bool advance(std::size_t device) {
    const std::vector<Action>& row = plan_.actions[device];
    const std::size_t before = next_[device];
    while (next_[device] < row.size() && ready(row[next_[device]])) {
      const Action& action = row[next_[device]++];
      std::uint8_t& state = done(action.stage, action.microbatch);
      state = static_cast<std::uint8_t>(state | makes(action.kind));
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
    throw Error("the schedule blocks itself: " + standing, where_,
                "reorder the actions so that every input is made before it is waited for");
  }

  const Plan& plan_;
  const std::string& where_;
  std::vector<std::uint8_t> done_;
  std::vector<std::size_t> next_;
};

}  // namespace

void validate_schedule(const Plan& plan, const std::string& where) {
  if (plan.actions.size() != plan.devices.size())
    throw Error("the schedule has " + std::to_string(plan.actions.size()) + " rows for " + std::to_string(plan.devices.size()) + " devices",
                where, "write one row of actions per device");
  std::size_t listed = 0;
  for (const std::vector<Action>& row : plan.actions) listed += row.size();
  // Bounds the memory that a hostile file can ask for by its own length.
  if (listed / 2 < plan.stages.size() || listed / 2 / plan.stages.size() < plan.microbatch_sizes.size())
    throw Error("the schedule lists " + std::to_string(listed) + " actions, too few for " + std::to_string(plan.num_stages()) +
                    " stages and " + std::to_string(plan.num_microbatches()) + " micro-batches",
                where, "list forward and backward of every micro-batch of every stage");
  AbstractRun run(plan, where);
  run.check_complete();
  run.run();
}

int most_in_flight(const Plan& plan, int stage) {
  const int device = plan.stages[static_cast<std::size_t>(stage)].devices.front();
  int in_flight = 0;
  int most = 0;
  for (const Action& action : plan.actions[static_cast<std::size_t>(device)]) {
    if (action.stage != stage) continue;
    if (action.kind == ActionKind::forward) most = std::max(most, ++in_flight);
    if (action.kind == ActionKind::backward || action.kind == ActionKind::backward_weight) --in_flight;
  }
  return most;
}

}  // namespace mptune
