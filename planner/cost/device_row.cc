#include "planner/cost/device_row.h"

#include <utility>

namespace mptune::planner {

DeviceRow::DeviceRow(const Plan& plan, int device) : plan_(plan), device_(device), starts_(plan.stages.size(), kNotHere) {
  std::size_t slots = 0;
  for (const Action& action : actions())
    if (std::size_t& start = starts_[as_index(action.stage)]; start == kNotHere)
      start = std::exchange(slots, slots + plan.microbatch_sizes.size());
  forward_at_ = gradient_at_ = release_at_ = std::vector<int>(slots, -1);
  for (std::size_t q = 0; q < actions().size(); ++q) {
    const Action& action = actions()[q];
    if (action.kind == ActionKind::forward)
      forward_at_[slot(action.stage, action.microbatch)] = static_cast<int>(q);
    else if (action.kind != ActionKind::backward_weight)
      gradient_at_[slot(action.stage, action.microbatch)] = static_cast<int>(q);
    splits_ = splits_ || action.kind == ActionKind::backward_input;
    for (int i = action.microbatch; releases(action.kind) && i <= action.last_microbatch(); ++i)
      release_at_[slot(action.stage, i)] = static_cast<int>(q);
  }
}

int DeviceRow::microbatches(int s) const {
  int count = 0;
  for (int i = 0; i < plan_.num_microbatches(); ++i) count += mine(s, i) ? 1 : 0;
  return count;
}

}  // namespace mptune::planner
