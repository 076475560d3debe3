#include "planner/schedule/arrivals.h"

#include <algorithm>

#include "profiler/base/index.h"

namespace mptune::planner {

Arrivals::Arrivals(const Layout& layout, const ScheduleCosts& costs) : layout_(layout), costs_(costs) {
  clear();
}

void Arrivals::clear() {
  const auto devices = as_index(layout_.devices());
  link_free_.assign(devices * devices, 0);
  output_at_.assign(layout_.slot(layout_.stages(), 0), kNever);
  gradient_at_ = output_at_;
}

int Arrivals::send(const Action& action, std::int64_t end_ns) {
  if (action.kind == ActionKind::backward_weight) return -1;
  const bool forward = action.kind == ActionKind::forward;
  const int to = forward ? action.stage + 1 : action.stage - 1;
  if (to < 0 || to >= layout_.stages()) return -1;
  const auto source = as_index(layout_.device_of(action.stage, action.microbatch));
  const auto destination = as_index(layout_.device_of(to, action.microbatch));
  std::int64_t there = end_ns;
  if (source != destination) {
    const StageCosts& costs = costs_.stages[as_index(action.stage)];
    std::int64_t& link = link_free_[source * as_index(layout_.devices()) + destination];
    there = link = std::max(link, end_ns) + (forward ? costs.send_output_ns : costs.send_gradient_ns);
  }
  const std::int64_t early = forward ? 0 : costs_.stages[as_index(to)].recompute_ns;
  (forward ? output_at_ : gradient_at_)[layout_.slot(to, action.microbatch)] = std::max<std::int64_t>(0, there - early);
  return to;
}

}  // namespace mptune::planner
