#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <torch/types.h>

#include "profiler/base/sample_range.h"

namespace mptune {

using Tensors = std::vector<at::Tensor>;

/// A parameter or buffer with its full name in the user's model: "layer1.0.conv1.weight".
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

namespace profiler {
class DrawScope;
}

/// The micro-batch that a layer runs. Random numbers must depend on these fields only, never on the partition.
struct RunContext {
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  int microbatch = 0;
  std::int64_t first_sample = 0;  ///< index of the micro-batch's first sample in the global batch
  std::int64_t samples = 0;
  bool recomputing = false;              ///< a recomputation: statistics must not be recorded again
  bool recomputed = false;               ///< a recomputation of this forward will follow
  bool evaluating = false;               ///< dropout and batch norms behave as after training; nothing that the layer keeps changes
  profiler::DrawScope* draws = nullptr;  ///< source of random numbers, set by run_layer (randomness.h)
};

/// Statistics per channel of one batch norm in one micro-batch.
struct BatchStatistics {
  at::Tensor mean;
  at::Tensor variance;     ///< unbiased
  std::int64_t count = 0;  ///< values per channel
};

/// What a layer does with its input tensors. Stages then send each other only what is read, and wait for nothing else.
struct TensorFlow {
  static constexpr int kSeveral = 2;

  /// Per input: 0: the layer reads neither its values nor its sizes; 1: one operator reads it, whose gradient is then all that the layer
  /// adds to the input's gradient; kSeveral: more than one operator reads it, or it is not known how many. With 1 in place of kSeveral,
  /// gradients may be added up in another order than in the un-pipelined step.
  std::vector<int> reads;
  std::vector<int> passes;  ///< per output: index of the input that it is, unchanged; -1: the layer computes it
  bool operator==(const TensorFlow&) const = default;
};

/// One piece of a model that a cut cannot divide. A layer object belongs to one device and is used by one thread at a time.
class Layer {
 public:
  virtual ~Layer() = default;

  /// Takes and returns dense tensors, samples in the first dimension. Recorded by autograd unless gradients are off.
  /// Must not modify its inputs. Throws c10::Error like LibTorch.
  [[nodiscard]] virtual Tensors forward(const Tensors& inputs, const RunContext& context) = 0;

  /// What forward() does with its tensors, the same in every call; nullopt: it reads all inputs and computes all outputs, all different.
  /// forward() may get an empty tensor for an input that it does not read, and an output that it passes on is replaced by the input.
  [[nodiscard]] virtual std::optional<TensorFlow> flow() const { return std::nullopt; }

  /// Returns the trainable parameters (leaves that require gradients), in a fixed order that all clones share.
  [[nodiscard]] virtual std::vector<NamedTensor> parameters() const = 0;
  /// Returns state that is saved but not trained (running statistics), in a fixed order.
  [[nodiscard]] virtual std::vector<NamedTensor> buffers() const = 0;

  /// True if its tensors' names are unique in the whole model: layers of this kind that use the same name share one tensor (tied weights).
  [[nodiscard]] virtual bool shares_by_name() const { return false; }
  /// Uses `tensor` from now on for its parameter or buffer `name`. Called only if shares_by_name().
  virtual void share(const std::string& /*name*/, const at::Tensor& /*tensor*/) {}

  /// Returns an independent copy with equal values whose tensors are allocated by the calling thread (and charged to its device).
  [[nodiscard]] virtual std::unique_ptr<Layer> clone() const = 0;

  /// Returns the name of the kind for reports: "Bottleneck", "Linear".
  [[nodiscard]] virtual std::string kind() const = 0;

  /// Number of samples that forward() takes in a micro-batch. It is limited for a program that was exported for a range.
  [[nodiscard]] virtual SampleRange samples() const { return {}; }
  /// True if samples of one micro-batch influence each other (batch norm).
  [[nodiscard]] virtual bool has_batch_statistics() const { return false; }
  /// Returns the statistics of the last forward that was not a recomputation, one per batch norm in a fixed order; empty without batch
  /// norms.
  [[nodiscard]] virtual std::vector<BatchStatistics> take_statistics() { return {}; }
  /// Returns a buffer that its forward has written, other than running statistics that are committed: a moving average, for example. A
  /// layer with one sees the micro-batches one after the other, so that its stage has no replicas. "" if it has written none so far.
  [[nodiscard]] virtual std::string written_buffer() const { return ""; }
  /// Updates running statistics once per step. `by_norm`: for each batch norm, the statistics of all micro-batches, in ascending order. The
  /// result equals that of one forward over the whole batch.
  virtual void commit_statistics(const std::vector<std::vector<BatchStatistics>>& /*by_norm*/) {}
};

}  // namespace mptune
