#include "planner/advise/order_check.h"

#include "planner/advise/even_profile.h"
#include "planner/schedule/schedule.h"
#include "planner/simulate/operations.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

std::string action_of(const Operation& operation) {
  const auto kind = operation.kind == EventKind::forward          ? ActionKind::forward
                    : operation.kind == EventKind::backward       ? ActionKind::backward
                    : operation.kind == EventKind::backward_input ? ActionKind::backward_input
                                                                  : ActionKind::backward_weight;
  return to_text(Action{operation.stage, kind, operation.microbatch, operation.further});
}

// Finds what each copy waited for last, in the order of the list.
class LastWaits {
 public:
  LastWaits(const Operations& operations, const Timing& timing)
      : operations_(operations), timing_(timing), wait_(operations.waits.begin()) {}

  /// Returns an action of the other end that ended after the message was made, -1: none. Requires: ascending copies.
  int of(std::size_t copy) {
    const int made = operations_.list[copy].input;
    int last = made;
    while (wait_ != operations_.waits.end() && as_index(wait_->operation) < copy) ++wait_;
    for (; wait_ != operations_.waits.end() && as_index(wait_->operation) == copy; ++wait_)
      if (const Operation& other = operations_.list[as_index(wait_->until)];
          other.kind != EventKind::copy && other.device != operations_.list[copy].device && end_ns(wait_->until) > end_ns(last))
        last = wait_->until;
    return last == made ? -1 : last;
  }
  [[nodiscard]] std::int64_t end_ns(int i) const { return timing_.start_ns[as_index(i)] + timing_.duration_ns[as_index(i)]; }

 private:
  const Operations& operations_;
  const Timing& timing_;
  std::vector<Wait>::const_iterator wait_;
};

}  // namespace

OrderCheck check_order(const Plan& plan, const Messages& messages) {
  OrderCheck check;
  check.deadlock = deadlock_of(plan, messages);
  if (!check.deadlock.empty()) return check;
  const Plan even = even_plan(plan);
  const CostModel cost(even_profile(even, 1));
  const Operations operations = list_operations(even, cost, messages);
  const Timing timing = time_operations(operations);
  const std::int64_t free_ns = time_operations(list_operations(even, cost)).end_ns;
  if (free_ns > 0) check.slowdown = static_cast<double>(timing.end_ns) / static_cast<double>(free_ns);
  LastWaits waits(operations, timing);
  for (std::size_t i = 0; i < operations.list.size(); ++i) {
    const Operation& copy = operations.list[i];
    if (copy.kind != EventKind::copy) continue;
    const int other = waits.of(i);
    if (other < 0) continue;
    const Operation& made = operations.list[as_index(copy.input)];
    const Operation& busy = operations.list[as_index(other)];
    const double forwards = static_cast<double>(timing.start_ns[i] - waits.end_ns(copy.input)) * 1e-9;
    if (check.longest && forwards <= check.longest->forwards) continue;
    check.longest = {action_of(made), plan.devices[as_index(made.device)], action_of(busy), plan.devices[as_index(busy.device)], forwards};
  }
  return check;
}

}  // namespace mptune::planner
