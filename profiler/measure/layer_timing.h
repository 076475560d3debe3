#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "profiler/base/memory_format.h"
#include "profiler/device/device.h"
#include "profiler/model/model.h"

namespace mptune::profiler {

/// Costs of one forward and backward over a chain of layers, in seconds and bytes per layer. Each layer gets a detached input, as behind a
/// cut. The loss counts with the last layer.
struct ChainTimes {
  explicit ChainTimes(std::size_t layers = 0)
      : forward_s(layers),
        backward_s(layers),
        output_bytes(layers),
        gradient_bytes(layers),
        saved_activation_bytes(layers),
        workspace_bytes(layers),
        keeps_output(layers) {}

  std::vector<double> forward_s;
  std::vector<double> backward_s;
  std::vector<std::int64_t> output_bytes;
  std::vector<std::int64_t> gradient_bytes;  ///< of the output's gradient; less than the output if parts of it need none
  std::vector<std::int64_t> saved_activation_bytes;
  std::vector<std::int64_t> workspace_bytes;
  std::vector<bool> keeps_output;
};

/// A model's layers on one device, their weights and inputs in the memory format. Create and use it on the device's compute thread.
class LayerChain {
 public:
  LayerChain(const Model& model, Device& device, MemoryFormat format = MemoryFormat::contiguous);

  /// Times one pass over a micro-batch in host memory. `accumulate`: adds gradients to those of the pass before, as all micro-batches of a
  /// step but the first do.
  [[nodiscard]] ChainTimes time_pass(const Batch& microbatch, bool accumulate);
  [[nodiscard]] std::vector<at::Tensor> parameters() const;
  void clear_gradients();

 private:
  Device& device_;
  MemoryFormat format_;
  std::vector<ModelLayer> layers_;
  Loss loss_;
};

/// Time of one action without its layers [s]: detaching inputs, entering and leaving the autograd engine.
[[nodiscard]] double action_overhead_seconds();

}  // namespace mptune::profiler
