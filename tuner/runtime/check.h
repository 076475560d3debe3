#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/plan.h"
#include "profiler/model/model.h"
#include "tuner/runtime/step_record.h"
#include "tuner/trial/check.h"

namespace mptune::tuner {

/// Whether the pieces of a model train as the whole model does. The whole: one forward and backward of all layers in one graph (an exported
/// program in one piece), in the calling thread, on copies of the model. Every comparison covers loss, gradients and, where they must
/// agree, layer outputs and buffers; its difference names the first layer, of an exported program the operator where it is known.
class ModelCheck {
 public:
  /// Refers to `model`, which outlives this object. `seed` is that of random layers.
  ModelCheck(const Model& model, Batch batch, std::uint64_t seed);

  /// "again": each layer run twice on the same input gives the same output, as recomputation needs. "pieces": every layer a piece of its
  /// own against the whole.
  [[nodiscard]] std::vector<CheckPart> pieces();
  /// "microbatches": the sum over micro-batches of these sizes against the whole batch; left out where batch norms couple samples.
  [[nodiscard]] CheckPart microbatches(const std::vector<int>& sizes);
  /// "plan": a pipeline with the plan, on cores of this machine whatever its devices are, against the whole with the plan's micro-batches.
  [[nodiscard]] CheckPart plan(const Plan& plan) const;

 private:
  [[nodiscard]] const StepRecord& whole();
  [[nodiscard]] RunContext context() const;
  [[nodiscard]] std::optional<profiler::ExportedRange> range_of(int layer) const;
  void name_operation_of_again(CheckDifference& difference, const Tensors& inputs) const;
  void name_operation_of_piece(CheckDifference& difference, const Tensors& inputs) const;
  [[nodiscard]] std::optional<CheckDifference> first_layer_that_couples(const std::vector<int>& sizes, double tolerance);

  const Model& model_;
  Batch batch_;
  std::uint64_t seed_;
  std::optional<StepRecord> whole_;
};

/// "reference": one un-cut step of the exported program at `path` on the inputs in the file, drawing as PyTorch does, against what
/// mptune_export.py recorded; left out where the file has no reference. Throws Error for a reference that is damaged.
[[nodiscard]] CheckPart check_reference(const std::string& path);

}  // namespace mptune::tuner
