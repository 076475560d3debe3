#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "profiler/model/exported/layer.h"
#include "profiler/model/layers/model.h"

namespace mptune::tuner {

/// Results of a step, to compare with the same step computed in another way.
struct StepRecord {
  std::vector<Tensors> outputs;        ///< [layer]: copies of its outputs; only where the batch is one micro-batch
  at::Tensor loss;                     ///< mean over the samples
  std::vector<NamedTensor> gradients;  ///< of all parameters, undefined where there is none
  std::vector<NamedTensor> buffers;    ///< after statistics were committed
};

/// Returns copies of a model's layers, tied as in the model, so that a step leaves the model unchanged.
[[nodiscard]] std::vector<ModelLayer> cloned_layers(const Model& model);

/// Statistics of the batch norms of some layers over the micro-batches of a step.
class StepStatistics {
 public:
  /// Takes a micro-batch's statistics; call it after the micro-batch's forward.
  void take(const std::vector<ModelLayer>& layers);
  /// Commits the statistics; call it after the last micro-batch.
  void commit(const std::vector<ModelLayer>& layers) const;

 private:
  std::vector<std::vector<std::vector<BatchStatistics>>> by_layer_;  ///< [layer][norm][micro-batch]
};

/// Records gradients and buffers of layers as they are now.
void record_state(const std::vector<ModelLayer>& layers, StepRecord& record);

/// A copy of a model that runs forward in one autograd graph, layer after layer. An exported program runs as one piece, without cuts
/// between its layers.
class WholeModel {
 public:
  explicit WholeModel(const Model& model);

  /// `outputs`, if not null, gets copies of each layer's outputs; `watch` sees the nodes of an exported program.
  [[nodiscard]] Tensors forward(const Tensors& inputs, const RunContext& context, std::vector<Tensors>* outputs,
                                const profiler::NodeObserver& watch = {});

  /// What holds parameters, buffers and statistics: the layers, or the program as a whole.
  [[nodiscard]] const std::vector<ModelLayer>& holders() const { return whole_.empty() ? layers_ : whole_; }

 private:
  [[nodiscard]] Tensors forward_program(const Tensors& inputs, const RunContext& context, std::vector<Tensors>* outputs,
                                        const profiler::NodeObserver& watch);

  std::vector<ModelLayer> layers_;
  std::vector<ModelLayer> whole_;  ///< an exported program as one layer
};

/// What a micro-batch finds in the buffers that forward writes: what earlier micro-batches left, or what the model has.
enum class Buffers { as_left, of_the_model };

/// Runs one step of the whole model in the calling thread, micro-batch after micro-batch; gradients are summed in that order.
[[nodiscard]] StepRecord whole_step(const Model& model, const Batch& batch, const std::vector<int>& sizes, std::uint64_t seed,
                                    Buffers buffers = Buffers::as_left);

/// A step of one micro-batch with every layer as a piece of its own: detached boundaries, gradients passed back from piece to piece.
struct PiecewiseStep {
  StepRecord record;
  std::vector<Tensors> inputs;  ///< [layer]
  std::vector<Tensors> again;   ///< [layer]: outputs of a second run on the same inputs, as in recomputation
};
[[nodiscard]] PiecewiseStep piecewise_step(const Model& model, const Batch& batch, std::uint64_t seed);

}  // namespace mptune::tuner
