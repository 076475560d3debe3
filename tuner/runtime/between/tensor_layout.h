#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace mptune::tuner {

/// How tensors lie in a message: one behind the other, each in the order of its dimensions in memory, without gaps.
struct TensorLayout {
  struct Place {
    bool defined = true;
    int same_as = -1;  ///< index of an earlier tensor that this one is
    at::ScalarType type = at::kFloat;
    bool requires_grad = false;
    std::vector<std::int64_t> sizes, strides;
    std::int64_t offset = 0;  ///< [bytes]
    [[nodiscard]] bool has_memory() const { return defined && same_as < 0; }
    bool operator==(const Place&) const = default;
  };
  std::vector<Place> places;
  std::int64_t bytes = 0;
  bool operator==(const TensorLayout&) const = default;
};

[[nodiscard]] TensorLayout layout_of(const std::vector<at::Tensor>& tensors);
/// Copies host tensors of this layout into `memory`, from its byte `first` on.
void pack(const std::vector<at::Tensor>& tensors, const TensorLayout& layout, const at::Tensor& memory, std::int64_t first);
/// Returns tensors in `memory`, which they keep: none is a view of another.
[[nodiscard]] std::vector<at::Tensor> unpack(const TensorLayout& layout, const at::Tensor& memory, std::int64_t first);

/// Returns the tensors of this layout that have memory of their own, on their device: each one-dimensional, without gaps.
[[nodiscard]] std::vector<at::Tensor> flat_tensors(const std::vector<at::Tensor>& tensors, const TensorLayout& layout);
/// Returns tensors without memory that have the sizes and types of flat_tensors().
[[nodiscard]] std::vector<at::Tensor> flat_likes(const TensorLayout& layout);
/// Returns the tensors of the layout, in the memory of `flat`: none is a view of another. It undoes flat_tensors().
[[nodiscard]] std::vector<at::Tensor> from_flat(const TensorLayout& layout, const std::vector<at::Tensor>& flat);

/// Returns a layout as numbers, to send it.
[[nodiscard]] std::vector<std::int64_t> numbers_of(const TensorLayout& layout);
/// Throws Error (internal) for numbers that are no layout's.
[[nodiscard]] TensorLayout layout_from(const std::vector<std::int64_t>& numbers);

}  // namespace mptune::tuner
