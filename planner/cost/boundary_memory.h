#pragma once

#include <cstdint>

#include "planner/cost/cost_model.h"
#include "planner/cost/device_row.h"
#include "planner/cost/holding.h"

namespace mptune::planner {

/// What a device holds of the tensors that cross the borders of its stages. Row and cost model must outlive this.
class BoundaryMemory {
 public:
  BoundaryMemory(const DeviceRow& row, const CostModel& cost);

  /// Inputs of stage s from other devices, or the gradients of its outputs. Copies never block their sender, so they may arrive early. How
  /// early is bounded by how far the neighbours' own rows let them run ahead of this device.
  void add_received(int s, bool gradients, Holding& held) const;
  /// Stage s + 1 runs the micro-batch on this device, too. It may need the output of stage s longer than that does, and stage s the
  /// gradient of its output.
  void add_passed_on(int s, int microbatch, Holding& held) const;
  /// Bytes that an action sends and nothing else counts: an output that is kept for backward is counted there.
  [[nodiscard]] std::int64_t sent_bytes(const Action& action) const;
  /// True if the device copies what the action sends before its next action.
  [[nodiscard]] bool copies_itself(const Action& action) const;

 private:
  [[nodiscard]] std::int64_t boundary(int layer, int microbatch, bool gradients) const {
    return cost_.boundary_bytes(layer, row_.samples(microbatch), gradients);
  }
  [[nodiscard]] bool drops_output(int s, int microbatch) const;
  [[nodiscard]] int needed_until(int s, int microbatch) const;
  [[nodiscard]] std::int64_t held_input(int s, int microbatch) const;
  [[nodiscard]] std::int64_t held_gradient(int s, int microbatch) const;

  const DeviceRow& row_;
  const CostModel& cost_;
  int index_;  // of the device, in the profile
};

}  // namespace mptune::planner
