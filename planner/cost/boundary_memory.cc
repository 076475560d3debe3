#include "planner/cost/boundary_memory.h"

#include <algorithm>

#include "planner/cost/stage_need.h"
#include "profiler/base/index.h"

namespace mptune::planner {

BoundaryMemory::BoundaryMemory(const DeviceRow& row, const CostModel& cost)
    : row_(row),
      cost_(cost),
      index_(cost.device_index(row.plan().devices[as_index(row.device())])),
      flows_(stage_flows(cost, row.plan().stages)),
      offloaded_(offloaded(row.plan(), row.device())) {
  const auto here = [&](int s) { return std::ranges::count(row.stage(s).devices, row.device()) > 0; };
  std::erase_if(flows_, [&](const StageFlow& flow) { return !here(flow.front) && !here(flow.back); });
}

// An input may arrive as soon as the producer has run the backwards that precede its forward there; these backwards wait for this device's
// backwards. A gradient may arrive as soon as the producer has run the forwards that precede its backward; these wait for this device's
// forwards.
void BoundaryMemory::add_received(const StageFlow& flow, bool gradients, Holding& held) const {
  const int s = gradients ? flow.front : flow.back;
  const int from = gradients ? flow.back : flow.front;
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
        held.add({reached + 1, needed, bytes(flow, i, gradients), Holding::kCopied});
        held.add({needed + 1, row_.release_at(s, i), gradients ? held_gradient(flow, i) : held_input(flow, i), Holding::kCopied});
      }
    }
  }
}

// The front stage needs the gradient of its output from the back stage's input gradients on; the input gradients count it while they run.
void BoundaryMemory::add_passed_on(const StageFlow& flow, int i, Holding& held) const {
  const int front = flow.front, back = flow.back;
  const auto keep = [&](int from, int until, std::int64_t bytes) { held.add({from, until, bytes, i}); };
  const int from = only_passed_on_from(flow, i);
  keep(from, needed_until(back, i), bytes(flow, i, false));
  keep(std::max(from, needed_until(back, i) + 1), row_.release_at(back, i), held_input(flow, i));
  keep(row_.gradient_at(back, i), needed_until(front, i), bytes(flow, i, true));
  keep(needed_until(front, i) + 1, row_.release_at(front, i), held_gradient(flow, i));
}

// Returns the first action of the row during which only the back stage's input counts the front stage's output.
int BoundaryMemory::only_passed_on_from(const StageFlow& flow, int i) const {
  const int front = flow.front;
  if (drops_output(front, i)) return row_.forward_at(front, i);
  const auto away = std::ranges::find_if(offloaded_, [=](const Offloaded& one) { return one.stage == front && one.microbatch == i; });
  if (away != offloaded_.end()) return away->freed();
  const bool splits = row_.gradient_at(front, i) < row_.release_at(front, i) && cost_.memory().split_memory_measured(index_);
  return (splits ? row_.gradient_at(front, i) : row_.release_at(front, i)) + 1;
}

// Calls visit(flow, device) for what the action sends to other devices.
template <class Visit>
void BoundaryMemory::for_sent(const Action& action, const Visit& visit) const {
  if (action.kind == ActionKind::backward_weight) return;
  const bool forward = action.kind == ActionKind::forward;
  for (const StageFlow& flow : flows_) {
    if ((forward ? flow.front : flow.back) != action.stage || (!forward && !flow.needs_gradient)) continue;
    const int to = device_of(row_.stage(forward ? flow.back : flow.front), action.microbatch);
    if (to != row_.device()) visit(flow, to);
  }
}

std::int64_t BoundaryMemory::sent_bytes(const Action& action) const {
  const bool forward = action.kind == ActionKind::forward;
  std::int64_t sent = 0;
  for_sent(action, [&](const StageFlow& flow, int) {
    if (!forward || drops_output(flow.front, action.microbatch)) sent += bytes(flow, action.microbatch, !forward);
  });
  return sent;
}

void BoundaryMemory::add_sent(int at, Holding& held) const {
  const int last = static_cast<int>(row_.actions().size()) - 1;
  const Action& action = row_.actions()[as_index(at)];
  if (const std::int64_t sent = sent_bytes(action); sent > 0) held.add({at, std::min(at + 3, last), sent});
  if (action.kind != ActionKind::forward) return;
  const int free = row_.release_at(action.stage, action.microbatch) + 1;
  const std::int64_t kept = kept_sent_bytes(action);
  if (kept > 0 && free <= last) held.add({free, free, kept, Holding::kCopied});
}

// Returns the bytes that a forward sends and that are kept for backward.
std::int64_t BoundaryMemory::kept_sent_bytes(const Action& forward) const {
  std::int64_t kept = 0;
  for_sent(forward, [&](const StageFlow& flow, int) {
    if (!drops_output(flow.front, forward.microbatch)) kept += bytes(flow, forward.microbatch, false);
  });
  return kept;
}

bool BoundaryMemory::copies_itself(const Action& action) const {
  const bool on_paper = !cost_.profile().network.empty();  // something else copies there
  bool all = true;
  for_sent(action, [&](const StageFlow&, int to) {
    all = all && !on_paper && cost_.copies().sender_copies(index_, cost_.device_index(row_.plan().devices[as_index(to)]));
  });
  return all;
}

// True if only later stages need the stage's output.
bool BoundaryMemory::drops_output(int s, int i) const {
  return recomputes(row_.stage(s).recompute, i) || dropped_output(cost_, index_, row_.stage(s).last_layer - 1, row_.samples(i)) > 0;
}

// Returns the last action of the row that needs all of the stage's input, and all of the gradient of its output. After the input gradients
// only what weight gradients read of them is held.
int BoundaryMemory::needed_until(int s, int i) const {
  return cost_.memory().split_memory_measured(index_) ? row_.gradient_at(s, i) : row_.release_at(s, i);
}

std::int64_t BoundaryMemory::held_input(const StageFlow& flow, int i) const {
  const int first = row_.stage(flow.back).first_layer;
  if (!cost_.memory().split_memory_measured(index_)) return 0;
  return std::min(bytes(flow, i, false), cost_.memory().split_memory(index_, first, row_.samples(i)).held_input_bytes);
}

std::int64_t BoundaryMemory::held_gradient(const StageFlow& flow, int i) const {
  const int last = row_.stage(flow.front).last_layer;
  if (!cost_.memory().split_memory_measured(index_)) return 0;
  return std::min(bytes(flow, i, true), cost_.memory().split_memory(index_, last - 1, row_.samples(i)).held_gradient_bytes);
}

}  // namespace mptune::planner
