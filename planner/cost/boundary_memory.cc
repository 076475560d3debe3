#include "planner/cost/boundary_memory.h"

#include <algorithm>

#include "planner/cost/stage_need.h"
#include "profiler/base/index.h"

namespace mptune::planner {

BoundaryMemory::BoundaryMemory(const DeviceRow& row, const CostModel& cost)
    : row_(row), cost_(cost), index_(cost.device_index(row.plan().devices[as_index(row.device())])) {}

// An input may arrive as soon as the producer has run the backwards that precede its forward there. Those wait for this device's
// backwards. A gradient, as soon as the producer has run the forwards that precede its backward; those wait for this device's forwards.
void BoundaryMemory::add_received(int s, bool gradients, Holding& held) const {
  const int from = gradients ? s + 1 : s - 1;
  const int border = gradients ? row_.stage(s).last_layer : row_.stage(s).first_layer;
  for (const int producer : row_.stage(from).devices) {
    if (producer == row_.device()) continue;
    int reached = -1;
    for (const Action& action : row_.plan().actions[as_index(producer)]) {
      const int i = action.microbatch;
      if (action.stage != from || action.kind == ActionKind::backward_weight || !row_.mine(s, i)) continue;
      if ((action.kind == ActionKind::forward) == gradients) {
        reached = std::max(reached, gradients ? row_.forward_at(s, i) : row_.gradient_at(s, i));
      } else {
        const int needed = needed_until(s, i);
        held.add({reached + 1, needed, boundary(border, i, gradients), Holding::kReceived});
        held.add({needed + 1, row_.release_at(s, i), gradients ? held_gradient(s, i) : held_input(s, i), Holding::kReceived});
      }
    }
  }
}

// Stage s needs the gradient of its output from the next stage's input gradients on; those count it while they run.
void BoundaryMemory::add_passed_on(int s, int i, Holding& held) const {
  const bool splits = row_.gradient_at(s, i) < row_.release_at(s, i) && cost_.split_memory_measured(index_);
  const int gone = splits ? row_.gradient_at(s, i) : row_.release_at(s, i);
  const auto keep = [&](int from, int until, std::int64_t bytes) { held.add({from, until, bytes, i}); };
  const int from = drops_output(s, i) ? row_.forward_at(s, i) : gone + 1;
  keep(from, needed_until(s + 1, i), boundary(row_.stage(s).last_layer, i, false));
  keep(std::max(from, needed_until(s + 1, i) + 1), row_.release_at(s + 1, i), held_input(s + 1, i));
  keep(row_.gradient_at(s + 1, i), needed_until(s, i), boundary(row_.stage(s).last_layer, i, true));
  keep(needed_until(s, i) + 1, row_.release_at(s, i), held_gradient(s, i));
}

std::int64_t BoundaryMemory::sent_bytes(const Action& action) const {
  const int s = action.stage;
  const int i = action.microbatch;
  if (action.kind == ActionKind::forward) {
    const bool leaves = s + 1 < row_.plan().num_stages() && !row_.mine(s + 1, i);
    return leaves && drops_output(s, i) ? boundary(row_.stage(s).last_layer, i, false) : 0;
  }
  const bool leaves = s > 0 && !row_.mine(s - 1, i) && action.kind != ActionKind::backward_weight;
  return leaves ? boundary(row_.stage(s).first_layer, i, true) : 0;
}

bool BoundaryMemory::copies_itself(const Action& action) const {
  const int to = device_of(row_.stage(action.stage + (action.kind == ActionKind::forward ? 1 : -1)), action.microbatch);
  return cost_.sender_copies(index_, cost_.device_index(row_.plan().devices[as_index(to)]));
}

// True if only the next stage needs the stage's output.
bool BoundaryMemory::drops_output(int s, int i) const {
  return recomputes(row_.stage(s).recompute, i) || dropped_output(cost_, index_, row_.stage(s).last_layer - 1, row_.samples(i)) > 0;
}

// The last action of the row that needs all of the stage's input, and all of the gradient of its output. Behind the input gradients
// only what weight gradients read of them is held.
int BoundaryMemory::needed_until(int s, int i) const {
  return cost_.split_memory_measured(index_) ? row_.gradient_at(s, i) : row_.release_at(s, i);
}

std::int64_t BoundaryMemory::held_input(int s, int i) const {
  const int first = row_.stage(s).first_layer;
  if (!cost_.split_memory_measured(index_)) return 0;
  return std::min(boundary(first, i, false), cost_.split_memory(index_, first, row_.samples(i)).held_input_bytes);
}

std::int64_t BoundaryMemory::held_gradient(int s, int i) const {
  const int last = row_.stage(s).last_layer;
  if (!cost_.split_memory_measured(index_)) return 0;
  return std::min(boundary(last, i, true), cost_.split_memory(index_, last - 1, row_.samples(i)).held_gradient_bytes);
}

}  // namespace mptune::planner
