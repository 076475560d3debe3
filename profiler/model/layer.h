#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/types.h>

namespace mptune {

using Tensors = std::vector<at::Tensor>;

/// A parameter or buffer with its full name in the user's model: "layer1.0.conv1.weight".
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

class DrawScope;

/// What a layer may know of the micro-batch that it runs. Anything random must depend on these alone, never on the partition.
struct RunContext {
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  int microbatch = 0;
  std::int64_t first_sample = 0;  ///< index of the micro-batch's first sample in the global batch
  std::int64_t samples = 0;
  bool recomputing = false;    ///< this forward was run before; statistics must not be recorded again
  DrawScope* draws = nullptr;  ///< what run_layer draws masks from (randomness.h)
};

/// Mean and unbiased variance per channel that one batch norm saw in one micro-batch.
struct BatchStatistics {
  at::Tensor mean;
  at::Tensor variance;     ///< unbiased
  std::int64_t count = 0;  ///< values per channel
};

/// One piece of a model that a cut cannot divide. A layer object belongs to one device and is used by one thread at a time.
class Layer {
 public:
  virtual ~Layer() = default;

  /// Dense tensors to dense tensors; sample dimension first. Records on autograd's tape unless gradients are off.
  /// Must not modify its inputs. Throws c10::Error as LibTorch does.
  [[nodiscard]] virtual Tensors forward(const Tensors& inputs, const RunContext& context) = 0;

  /// Trainable parameters in a fixed order, the same for every clone; leaves that require gradients.
  [[nodiscard]] virtual std::vector<NamedTensor> parameters() const = 0;
  /// State that is saved but not trained (running statistics), in a fixed order.
  [[nodiscard]] virtual std::vector<NamedTensor> buffers() const = 0;

  /// True if its names are the whole model's: a tensor of the same name in another such layer means the same one (tied weights).
  [[nodiscard]] virtual bool shares_by_name() const { return false; }
  /// Uses `tensor` from now on for its parameter or buffer `name`. Called only where shares_by_name().
  virtual void share(const std::string& /*name*/, const at::Tensor& /*tensor*/) {}

  /// An independent copy with equal values whose tensors are allocated by the calling thread (and charged to its device).
  [[nodiscard]] virtual std::unique_ptr<Layer> clone() const = 0;

  /// "Bottleneck", "Linear": for people.
  [[nodiscard]] virtual std::string kind() const = 0;

  /// True if samples of one micro-batch influence each other (batch norm).
  [[nodiscard]] virtual bool has_batch_statistics() const { return false; }
  /// Statistics of the last forward that was not a recomputation, one per batch norm in a fixed order; empty without any.
  [[nodiscard]] virtual std::vector<BatchStatistics> take_statistics() { return {}; }
  /// Commits a whole batch's statistics to the running ones: per batch norm the statistics of all its micro-batches in ascending order.
  /// Called once per step. The result is what one forward over the whole batch would have left.
  virtual void commit_statistics(const std::vector<std::vector<BatchStatistics>>& /*by_norm*/) {}
};

}  // namespace mptune
