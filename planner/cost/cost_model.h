#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "planner/cost/copy_costs.h"
#include "planner/cost/layer_memory.h"
#include "planner/cost/layer_tensors.h"
#include "planner/cost/step_bound.h"
#include "planner/cost/time_curve.h"
#include "planner/plan/plan.h"
#include "profiler/base/index.h"
#include "profiler/trace/values/profile.h"

namespace mptune {

/// Prices of layers, copies and memory, read out of a profile. Devices and layers are indices into the profile's.
/// Time is interpolated linearly between measured micro-batch sizes (time per sample is not constant, and a larger size may be cheaper);
/// beyond them the nearest segment is continued, and extrapolated() is true.
/// The model does not see a library that changes its kernels between two measured sizes, caches shared between layers, copies that slow
/// compute, allocator fragmentation beyond the class's reserve, or other load on the machine.
class CostModel {
 public:
  /// Copies what it needs of the profile. Throws Error if the profile has no layer, a class without a cost for a layer, or names a class,
  /// device or layer that it does not list.
  explicit CostModel(const Profile& profile);
  /// Prices plans in this variant. Throws Error as above, and where the profile has no costs in the variant.
  CostModel(const Profile& profile, const ExecutionVariant& variant);
  /// Prices this plan and plans with its options and devices. Throws Error as above, and where plan and profile differ in precision.
  CostModel(const Profile& profile, const Plan& plan);

  [[nodiscard]] const Profile& profile() const { return profile_; }
  /// Returns how the priced layers compute. It has the most threads where numbers of threads other than the default differ.
  [[nodiscard]] ExecutionVariant variant() const;
  [[nodiscard]] int layers() const { return static_cast<int>(profile_.layers.size()); }
  /// True if a stage may begin at `layer`: 0, or where the profile does not forbid it.
  [[nodiscard]] bool may_cut(int layer) const { return may_cut_[as_index(layer)]; }
  /// Throws Error where a step of `samples` samples, whatever its plan, may take more than 64 bits count (StepBound). Whatever adds up
  /// times or bytes of whole steps (peak_bytes, simulation, partition, search) calls this first, and so throws this error, too.
  void require_countable(std::int64_t samples) const { bound_.require_countable(samples); }

  /// Returns the index into the profile's devices of a device named in a plan. Throws Error where the profile does not know it.
  [[nodiscard]] int device_index(const std::string& name) const;
  [[nodiscard]] std::vector<int> device_indices(const std::vector<std::string>& names) const;
  [[nodiscard]] const DeviceClass& device_class(int device) const { return profile_.classes[class_of(device)]; }
  /// True if the device's tensors lie in the host's memory: the device reads a step's samples, and parameters of other devices in the
  /// host's memory, where they lie. False for all devices of a network.
  [[nodiscard]] bool in_host_memory(int device) const;
  /// Returns the rank of the process that has the device, among those that train together.
  [[nodiscard]] int rank_of(int device) const { return ranks_[as_index(device)]; }
  /// Returns the number of devices of the profile that were busy when `_busy` times were measured on `device`; 0 where they were not
  /// measured. Where devices of the profile share cores or GPUs, because a pool may be divided in several ways, a device counts weight()
  /// times.
  [[nodiscard]] int neighbours(int device) const { return neighbours_[as_index(device)]; }
  /// Returns 1; where devices share cores or GPUs, the device's cores, or its part of a GPU in units that do not depend on the division.
  [[nodiscard]] int weight(int device) const { return weights_[as_index(device)]; }

  /// Returns the times of a layer for a micro-batch of this size (time_curve.h).
  [[nodiscard]] LayerTimes layer(int device, int layer, int samples) const { return times(device, layer).at(samples); }
  /// True if, for some layer, this size is smaller or larger than all measured ones.
  [[nodiscard]] bool extrapolated(int device, int samples) const;
  /// True if, for some layer with parameters, only the whole backward was measured and each part of a split one is taken as half of it.
  [[nodiscard]] bool assumes_halves() const;
  /// Returns the seconds of a layer's weight gradients of fused micro-batches of these samples. The layer's convolutions that run once for
  /// all take their share (SplitMemory::fused_share) of what one micro-batch of all samples takes. The rest of each micro-batch is summed;
  /// where the share is unknown, that is all of it. The result leaves out how the layer's time is shared among its convolutions, and the
  /// copy that puts the micro-batches side by side.
  [[nodiscard]] double fused_weight_seconds(int device, int layer, std::span<const int> samples) const;
  /// These return the fixed cost of an action, that of a step, and what the optimizer takes for one layer's parameters, in whole
  /// nanoseconds.
  [[nodiscard]] double action_seconds(int device) const { return device_class(device).action_seconds; }
  [[nodiscard]] double step_seconds(int device) const { return device_class(device).step_seconds; }
  [[nodiscard]] double optimizer_seconds(int device, int layer) const;

  /// Returns the tensors that layers read. The next two functions ask them (layer_tensors.h).
  [[nodiscard]] const LayerTensors& tensors() const { return tensors_; }
  [[nodiscard]] bool is_chain() const { return tensors_.is_chain(); }
  [[nodiscard]] std::int64_t boundary_bytes(int layer, int samples, bool gradients) const {
    return tensors_.boundary(layer, gradients).bytes(samples);
  }

  /// Returns what copies cost. The next function is its seconds() (copy_costs.h).
  [[nodiscard]] const CopyCosts& copies() const { return copies_; }
  [[nodiscard]] double copy_seconds(int source, int destination, std::int64_t bytes) const {
    return copies_.seconds(source, destination, bytes);
  }

  /// Returns what layers need in memory. The next function is its parameters_bytes() (layer_memory.h).
  [[nodiscard]] const LayerMemory& memory() const { return memory_; }
  [[nodiscard]] std::int64_t parameters_bytes(int first_layer, int last_layer) const {
    return memory_.parameters_bytes(first_layer, last_layer);
  }
  /// These return the peak bytes on each of the plan's devices, and on one of them (planner/cost/peak_bytes.h).
  [[nodiscard]] std::vector<std::int64_t> peak_bytes(const Plan& plan) const;
  [[nodiscard]] std::int64_t peak_bytes(const Plan& plan, int device) const;

 private:
  [[nodiscard]] std::size_t class_of(int device) const { return as_index(profile_.devices[as_index(device)].device_class); }
  [[nodiscard]] const TimeCurve& times(int device, int layer) const {
    return times_[class_of(device) * profile_.layers.size() + as_index(layer)];
  }

  Profile profile_;
  LayerTensors tensors_;
  LayerMemory memory_;
  CopyCosts copies_;
  std::vector<bool> may_cut_;     ///< by layer
  std::vector<TimeCurve> times_;  ///< of class c and layer l: [c * layers + l]
  std::vector<int> ranks_;        ///< per device
  StepBound bound_;               ///< made after the members above, which it reads
  std::vector<int> neighbours_;   ///< per device
  std::vector<int> weights_;      ///< per device
};

}  // namespace mptune
