#pragma once

#include <functional>
#include <string>

#include <torch/types.h>

#include "profiler/model/layer.h"

namespace mptune {

/// Mean loss over the samples of a micro-batch. A value; copies share nothing that changes.
class Loss {
 public:
  /// Mean over samples of the cross entropy; output (samples, classes, ...) or (samples, positions, classes), integer target.
  /// A 3-D output is read as the latter if its second size is that of a 2-D target.
  [[nodiscard]] static Loss cross_entropy();
  /// Mean of (output - target)^2.
  [[nodiscard]] static Loss mse();
  /// Mean of output^2; needs no target.
  [[nodiscard]] static Loss mean_square();
  /// A user's own loss. `function` must return a scalar: the mean over its samples.
  [[nodiscard]] static Loss custom(std::string name, std::function<at::Tensor(const Tensors& outputs, const at::Tensor& target)> function);
  /// A loss by its name in `--loss`. Throws Error for an unknown name.
  [[nodiscard]] static Loss from_name(const std::string& name);

  [[nodiscard]] const std::string& name() const { return name_; }
  /// Throws Error if the function returns anything but one number.
  [[nodiscard]] at::Tensor operator()(const Tensors& outputs, const at::Tensor& target) const;

 private:
  Loss(std::string name, std::function<at::Tensor(const Tensors&, const at::Tensor&)> function)
      : name_(std::move(name)), function_(std::move(function)) {}
  std::string name_;
  std::function<at::Tensor(const Tensors&, const at::Tensor&)> function_;
};

}  // namespace mptune
