#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "planner/plan/plan.h"
#include "profiler/model/layers/model.h"
#include "tuner/check/compared_tensors.h"
#include "tuner/check/step_record.h"
#include "tuner/trial/check_result.h"

namespace mptune::tuner {

/// Checks that the pieces of a model train as the whole model does. The whole model runs one forward and backward of all layers in one
/// autograd graph (an exported program in one piece), in the calling thread, on a copy of the model. Every comparison covers loss,
/// gradients and, where they must agree, layer outputs and buffers. A difference names the first layer that differs and, for an exported
/// program, the operator where it is known. pieces() and microbatches() throw Error (infeasible) where the loss is not finite.
class ModelCheck {
 public:
  /// Refers to `model`, which outlives this object. `seed` is the seed of random layers.
  ModelCheck(const Model& model, Batch batch, std::uint64_t seed);

  /// "again": runs each layer twice on the same input; recomputation needs equal outputs. "pieces": compares every layer, run as a piece of
  /// its own, with the whole model.
  [[nodiscard]] std::vector<CheckPart> pieces();
  /// "microbatches": compares the sum over micro-batches of these sizes with the whole batch, then the sums over single samples and over
  /// parts of unequal size, as far as the model takes these. Ends at the first sum that differs. Left out where batch norms couple samples,
  /// and where micro-batches differ only by a buffer that earlier ones have written. `has_time`: asked before each of the further splits;
  /// may be empty.
  [[nodiscard]] CheckPart microbatches(const std::vector<int>& sizes, const std::function<bool()>& has_time = {});
  /// "plan": compares a pipeline with the plan, run on CPU cores whatever the plan's devices are, with the whole model and the same
  /// micro-batches.
  [[nodiscard]] CheckPart plan(const Plan& plan) const;
  /// "precision": measures by how much a step in the model's precision differs from one in float32. Requires: the model's precision is not
  /// float32.
  [[nodiscard]] CheckPart precision();

 private:
  [[nodiscard]] const StepRecord& whole();
  [[nodiscard]] RunContext context() const;
  [[nodiscard]] std::optional<profiler::ExportedRange> range_of(int layer) const;
  void name_operation_of_again(CheckDifference& difference, const Tensors& inputs) const;
  void name_operation_of_piece(CheckDifference& difference, const Tensors& inputs) const;
  [[nodiscard]] ComparedTensors compared_with_whole(const StepRecord& step, const CheckPart& about);
  [[nodiscard]] CheckPart microbatches_of(const std::vector<int>& sizes, CheckPart about);
  /// Returns "layer writes its buffer x" where the micro-batches agree once each begins with the model's buffers; else "".
  [[nodiscard]] std::string writer_that_explains(const std::vector<int>& sizes, const CheckPart& about);
  [[nodiscard]] std::optional<CheckDifference> first_layer_that_couples(const std::vector<int>& sizes, double tolerance);

  const Model& model_;
  Batch batch_;
  std::uint64_t seed_;
  std::optional<StepRecord> whole_;
};

/// "reference": runs one step of the exported program at `path` in one piece, on the inputs in the file and with PyTorch's random numbers,
/// and compares it with what mptune_export.py recorded. Left out where the file has no reference. Throws Error for a damaged reference.
[[nodiscard]] CheckPart check_reference(const std::string& path);

}  // namespace mptune::tuner
