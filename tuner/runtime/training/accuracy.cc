#include "tuner/runtime/training/accuracy.h"

#include <ATen/ATen.h>

namespace mptune {

std::optional<Accuracy> accuracy_of(const Loss& loss, const Tensors& outputs, const at::Tensor& target) {
  const bool classifies = loss.choice() && loss.choice()->kind == LossKind::cross_entropy;
  if (!classifies || outputs.size() <= loss.choice()->first_output() || !target.defined() || at::isFloatingType(target.scalar_type()))
    return std::nullopt;
  const at::Tensor& output = outputs[loss.choice()->first_output()];
  if (output.dim() < 2 || output.size(0) != target.size(0)) return std::nullopt;
  const bool positions = output.dim() == 3 && target.dim() == 2 && output.size(1) == target.size(1);
  const at::Tensor chosen = output.argmax(positions ? 2 : 1);
  if (chosen.sizes() != target.sizes()) return std::nullopt;
  const at::Tensor counts = target.ne(loss.choice()->ignore_index);
  return Accuracy{(chosen.eq(target) & counts).sum().item<std::int64_t>(), counts.sum().item<std::int64_t>()};
}

}  // namespace mptune
