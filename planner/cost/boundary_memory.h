#pragma once

#include <cstdint>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/cost/device_row.h"
#include "planner/cost/holding.h"
#include "planner/cost/stage_flows.h"
#include "planner/plan/offload.h"

namespace mptune::planner {

/// What a device holds of the tensors that cross the borders of its stages. The row and the cost model must outlive this object.
class BoundaryMemory {
 public:
  BoundaryMemory(const DeviceRow& row, const CostModel& cost);

  /// Returns the flows from and to stages of the device.
  [[nodiscard]] const std::vector<StageFlow>& flows() const { return flows_; }
  /// Adds the inputs of the flow's back stage from other devices or, with `gradients`, the gradients of its front stage's outputs. Copies
  /// never block their sender, so they may arrive early. How early is bounded by how far the sender's own row lets it run ahead of this
  /// device.
  void add_received(const StageFlow& flow, bool gradients, Holding& held) const;
  /// Adds what the flow's two stages pass on where both run the micro-batch on this device. The back stage may need the output longer than
  /// the front stage does, and the front stage the gradient.
  void add_passed_on(const StageFlow& flow, int microbatch, Holding& held) const;
  /// Returns the bytes that an action sends and that nothing else counts. An output that is kept for backward is counted as such.
  [[nodiscard]] std::int64_t sent_bytes(const Action& action) const;
  /// Adds what the action at this place of a GPU's row sends, for as long as copies may read it. It is copied when the third action after
  /// it is launched (kMostUnsent in tuner/runtime/step/row_runner.cc). LibTorch's allocator has the memory back when all copies are done
  /// that were launched before the memory was given back; copies of the next action may be among them. What is kept for backward is given
  /// back by the action that releases it, while copies of the action before may be under way. A tensor that several stages get counts once
  /// for each.
  void add_sent(int at, Holding& held) const;
  /// True if the device copies what the action sends before its next action.
  [[nodiscard]] bool copies_itself(const Action& action) const;

 private:
  [[nodiscard]] std::int64_t bytes(const StageFlow& flow, int microbatch, bool gradients) const {
    return flow.bytes(row_.samples(microbatch), gradients);
  }
  [[nodiscard]] std::int64_t kept_sent_bytes(const Action& forward) const;
  template <class Visit>
  void for_sent(const Action& action, const Visit& visit) const;
  [[nodiscard]] bool drops_output(int s, int microbatch) const;
  [[nodiscard]] int only_passed_on_from(const StageFlow& flow, int microbatch) const;
  [[nodiscard]] int needed_until(int s, int microbatch) const;
  [[nodiscard]] std::int64_t held_input(const StageFlow& flow, int microbatch) const;
  [[nodiscard]] std::int64_t held_gradient(const StageFlow& flow, int microbatch) const;

  const DeviceRow& row_;
  const CostModel& cost_;
  int index_;  // index of the device in the profile
  std::vector<StageFlow> flows_;
  std::vector<Offloaded> offloaded_;
};

}  // namespace mptune::planner
