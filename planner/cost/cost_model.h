#pragma once

#include <cstdint>
#include <vector>

#include "mptune/planner/plan.h"
#include "mptune/profiler/trace/profile.h"
#include "mptune/profiler/trace/trace.h"

namespace mptune {

/// Costs of one layer at one micro-batch size on one device, interpolated.
struct LayerTimes {
  double forward_s = 0;
  double backward_s = 0;
  double forward_busy_s = 0;   ///< with the other devices busy; equal to forward_s where that was not measured
  double backward_busy_s = 0;
};

/// Prices of layers, copies and memory, read out of a profile.
/// Time is interpolated linearly between measured micro-batch sizes (time per sample is not constant), made monotone in the size;
/// beyond them the nearest segment is continued, and `extrapolated` says so.
/// It cannot see: caches shared between layers, allocator fragmentation, what the machine does besides.
class CostModel {
 public:
  /// Copies what it needs. Throws Error if the profile has no layer, or a class without a cost for a layer.
  explicit CostModel(const Profile& profile);

  [[nodiscard]] int layers() const;
  /// Index into the profile's devices of a device named in a plan. Throws Error where the profile does not know it.
  [[nodiscard]] int device_index(const std::string& name) const;

  [[nodiscard]] LayerTimes layer(int device, int layer, int samples) const;
  [[nodiscard]] bool extrapolated(int device, int samples) const;

  /// Bytes that cross the cut before layer `layer`, for `samples` samples; `gradients`: those that come back.
  [[nodiscard]] std::int64_t boundary_bytes(int layer, int samples, bool gradients) const;
  /// Seconds of a copy of `bytes` from device to device; 0 on one device.
  [[nodiscard]] double copy_seconds(int source, int destination, std::int64_t bytes) const;

  [[nodiscard]] double action_seconds(int device) const;
  [[nodiscard]] double step_seconds(int device) const;
  [[nodiscard]] double optimizer_seconds(int device, std::int64_t parameters_bytes) const;
  [[nodiscard]] double reduce_seconds(int device, std::int64_t parameters_bytes) const;

  [[nodiscard]] std::int64_t parameters_bytes(int first_layer, int last_layer) const;
  /// Bytes kept from forward to backward of one micro-batch by layers [first, last) on a device.
  [[nodiscard]] std::int64_t kept_bytes(int device, int first_layer, int last_layer, int samples) const;

  /// Peak bytes on each of the plan's devices: parameters, gradients, optimizer state, buffers, activations in flight by the schedule,
  /// receive slots, gradient slots, workspace. Never meant to lie below what is measured. Requires: a valid plan and schedule.
  [[nodiscard]] std::vector<std::int64_t> peak_bytes(const Plan& plan) const;

  [[nodiscard]] const Profile& profile() const { return profile_; }

 private:
  Profile profile_;
};

}  // namespace mptune
