#pragma once

#include <cstdint>
#include <optional>

#include "profiler/model/layers/loss.h"

namespace mptune {

/// How often the largest output is the target.
struct Accuracy {
  std::int64_t right = 0;
  std::int64_t counted = 0;  ///< targets other than ignore_index
  [[nodiscard]] double share() const { return counted > 0 ? static_cast<double>(right) / static_cast<double>(counted) : 0; }
};

/// Returns the accuracy of outputs and targets as Loss::cross_entropy takes them, for the first output that the loss reads. Returns nothing
/// for another loss.
[[nodiscard]] std::optional<Accuracy> accuracy_of(const Loss& loss, const Tensors& outputs, const at::Tensor& target);

}  // namespace mptune
