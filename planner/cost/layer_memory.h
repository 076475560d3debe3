#pragma once

#include <cstdint>
#include <vector>

#include "planner/cost/memory_curve.h"
#include "profiler/base/index.h"
#include "profiler/trace/values/profile.h"

namespace mptune {

/// What layers keep, hold and need in memory, in bytes, from the costs of a profile. Devices and layers are indices into the profile's.
class LayerMemory {
 public:
  /// Copies what it needs of the profile. Requires: usable costs of every layer in every class. Throws Error for a device without a class.
  explicit LayerMemory(const Profile& profile);

  /// Returns the bytes of the parameters of layers [first, last) in one stage. Parameters that several of these layers share count once.
  [[nodiscard]] std::int64_t parameters_bytes(int first_layer, int last_layer) const;
  /// Returns the bytes kept from forward to backward of one micro-batch by layers [first, last) on a device.
  [[nodiscard]] std::int64_t saved_activation_bytes(int device, int first_layer, int last_layer, int samples) const;
  /// True if the layer's own backward needs its output, as far as was measured.
  [[nodiscard]] bool keeps_output(int device, int layer) const { return curve(device, layer).keeps_output(); }
  /// True if what a split backward holds was measured for every layer of the device's class.
  [[nodiscard]] bool split_memory_measured(int device) const { return split_measured_[class_of(device)]; }
  /// Returns what a split backward of one layer holds. Requires: split_memory_measured().
  [[nodiscard]] SplitMemory split_memory(int device, int layer, int samples) const { return curve(device, layer).split_at(samples); }
  /// Returns the bytes held between the input gradients and the weight gradients of one micro-batch by layers [first, last) on a device, as
  /// measured; the memory of their own input and of the gradients of their own output is not counted. Where it was not measured, these are
  /// all that was kept and, for layers with parameters, the gradients of what was kept.
  [[nodiscard]] std::int64_t held_bytes(int device, int first_layer, int last_layer, int samples) const;
  /// Returns the most bytes that a layer's forward without gradients needs beside its input; where it was not measured, what the layer
  /// saves and its workspace.
  [[nodiscard]] std::int64_t bare_forward_bytes(int device, int layer, int samples) const;
  /// Returns the most bytes of a layer's backward above what is held before it, including the gradients of its parameters that it makes;
  /// where it was not measured, the layer's workspace and these gradients.
  [[nodiscard]] std::int64_t first_backward_bytes(int device, int layer, int samples) const;
  /// Returns the bytes of a micro-batch's loss, which the runtime keeps to the end of the step; 0 where saved activations count it.
  [[nodiscard]] std::int64_t loss_bytes() const { return loss_bytes_; }
  /// Returns the largest number of bytes beyond what is held, while any of these layers runs.
  [[nodiscard]] std::int64_t workspace_bytes(int device, int first_layer, int last_layer, int samples) const;

  /// Returns the measured memory of a layer on a device.
  [[nodiscard]] const MemoryCurve& curve(int device, int layer) const {
    return curves_[class_of(device) * has_parameters_.size() + as_index(layer)];
  }

 private:
  [[nodiscard]] std::size_t class_of(int device) const { return as_index(class_of_[as_index(device)]); }
  void add_class(const DeviceClass& device_class);
  [[nodiscard]] std::int64_t held_bytes_unmeasured(int device, int first_layer, int last_layer, int samples) const;

  std::vector<int> class_of_;                    ///< per device
  std::vector<MemoryCurve> curves_;              ///< of class c and layer l: [c * layers + l]
  std::vector<bool> split_measured_;             ///< per class: whether it was measured what split backwards hold
  std::vector<bool> has_parameters_;             ///< per layer
  std::vector<std::int64_t> parameters_before_;  ///< parameters before each layer, tied weights in every layer; one more at the end
  std::vector<TiedParameters> tied_parameters_;
  std::int64_t loss_bytes_ = 0;
};

}  // namespace mptune
