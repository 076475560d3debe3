#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace mptune::tuner {

/// A text as a tensor of bytes, to send it to another rank.
[[nodiscard]] at::Tensor text_as_tensor(const std::string& text);
/// Requires: a contiguous tensor of bytes in host memory.
[[nodiscard]] std::string text_in(const at::Tensor& bytes);

}  // namespace mptune::tuner
