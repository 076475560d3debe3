#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace mptune::tuner {

/// A text as a tensor of bytes, to send it to another rank.
[[nodiscard]] at::Tensor text_as_tensor(const std::string& text);

/// What is in a tensor that another rank has sent. Throws Error (internal) for one of another type, not in host memory or with gaps.
[[nodiscard]] std::string text_in(const at::Tensor& bytes);
[[nodiscard]] std::vector<std::int64_t> whole_numbers_in(const at::Tensor& numbers);
[[nodiscard]] std::vector<double> numbers_in(const at::Tensor& numbers);

/// Throws Error (internal): no rank of the same build sends this.
[[noreturn]] void refuse_message();

}  // namespace mptune::tuner
