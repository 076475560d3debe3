#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <torch/types.h>

#include "profiler/base/loss_choice.h"
#include "profiler/base/precision.h"
#include "profiler/model/layers/layer.h"

namespace mptune {

/// The mean loss over the samples of a micro-batch, or over the targets in it that count. A value; copies share nothing that changes.
class Loss {
 public:
  /// Returns the mean over samples of the cross entropy; output (samples, classes, ...) or (samples, positions, classes), integer target. A
  /// 3-D output is read as the latter if its second size equals that of a 2-D target. A floating-point target holds probabilities of the
  /// classes, in the output's shape, with the classes in dimension 1.
  [[nodiscard]] static Loss cross_entropy();
  /// Returns the mean of (output - target)^2.
  [[nodiscard]] static Loss mse();
  /// Returns the mean of output^2; needs no target.
  [[nodiscard]] static Loss mean_square();
  /// Returns the chosen one of these, for one output or for several: the sum of each output's loss against the same target, times its
  /// weight. Targets of the choice's ignore_index do not count; others count as much as its class_weights say. Calling the loss throws
  /// Error if the model has fewer outputs than there are weights, or returns None for one that counts.
  [[nodiscard]] static Loss of(const LossChoice& choice);
  /// Returns a user's own loss. `function` must return a scalar: the mean over its samples.
  [[nodiscard]] static Loss custom(std::string name, std::function<at::Tensor(const Tensors& outputs, const at::Tensor& target)> function);
  /// Returns a loss by its text in `--loss` (LossChoice). Throws Error for an unknown one.
  [[nodiscard]] static Loss from_name(const std::string& name);

  [[nodiscard]] const std::string& name() const { return name_; }
  /// Which built-in loss it is; nullopt for a caller's own loss.
  [[nodiscard]] const std::optional<LossChoice>& choice() const { return choice_; }
  /// Returns the same loss under autocast. Built-in losses take means in float32; a caller's own loss does as its operators do.
  [[nodiscard]] Loss computed_in(Precision precision) const;
  /// Returns the weights of the parts of a batch, such that the sum over the parts of weight times loss is the loss of the batch: each part
  /// weighs as much as counts in it. `sizes`: the parts' numbers of samples, in order; `target`: the batch's, on the host. A part that
  /// weighs 0 has no loss. Throws Error if nothing counts in the whole batch.
  [[nodiscard]] std::vector<double> weights_of_parts(const at::Tensor& target, const std::vector<int>& sizes) const;
  /// Computes the loss. Throws Error if the function returns anything but one number.
  [[nodiscard]] at::Tensor operator()(const Tensors& outputs, const at::Tensor& target) const;
  /// Returns the loss of a part that weighs 0: 0, with gradients of 0.
  [[nodiscard]] static at::Tensor of_nothing(const Tensors& outputs);

 private:
  /// How much counts in each sample of a target, in double; an undefined tensor: all samples count equally.
  using Counted = std::function<at::Tensor(const at::Tensor& target)>;
  Loss(std::string name, std::function<at::Tensor(const Tensors&, const at::Tensor&)> function, Counted counted = nullptr,
       std::optional<LossChoice> choice = std::nullopt)
      : name_(std::move(name)), function_(std::move(function)), counted_(std::move(counted)), choice_(std::move(choice)) {}
  std::string name_;
  std::function<at::Tensor(const Tensors&, const at::Tensor&)> function_;
  Counted counted_;
  std::optional<LossChoice> choice_;
  Precision precision_ = Precision::float32;
};

}  // namespace mptune
