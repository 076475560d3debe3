#include "tuner/runtime/between/tensor_layout.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "profiler/base/index.h"
#include "tuner/runtime/between/tensor_text.h"

namespace mptune::tuner {
namespace {

constexpr std::int64_t kAlignment = 64;  // as LibTorch allocates: kernels choose their code by it

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

at::Tensor tensor_at(const TensorLayout::Place& place, const at::Tensor& memory, std::int64_t first) {
  const auto size = static_cast<std::int64_t>(at::elementSize(place.type));
  at::Tensor tensor = at::empty({0}, memory.options().dtype(place.type));
  return tensor.set_(memory.storage(), (first + place.offset) / size, place.sizes, place.strides);
}

/// True if all of a tensor lies within so many bytes.
bool fits(const TensorLayout::Place& place, std::int64_t bytes) {
  std::int64_t left = (bytes - place.offset) / static_cast<std::int64_t>(at::elementSize(place.type));
  for (std::size_t i = 0; i < place.sizes.size(); ++i) {
    if (place.sizes[i] == 0) return true;
    if (place.strides[i] > 0 && place.sizes[i] - 1 > left / place.strides[i]) return false;
    left -= (place.sizes[i] - 1) * place.strides[i];
  }
  return !place.has_memory() || left > 0;
}

/// Reads numbers one by one.
class Reader {
 public:
  explicit Reader(const std::vector<std::int64_t>& numbers) : numbers_(numbers) {}
  std::int64_t next(std::int64_t least, std::int64_t most) {
    if (at_ >= numbers_.size() || numbers_[at_] < least || numbers_[at_] > most) refuse_message();
    return numbers_[at_++];
  }

 private:
  const std::vector<std::int64_t>& numbers_;
  std::size_t at_ = 0;
};

constexpr std::int64_t kMost = std::int64_t{1} << 48;
constexpr std::int64_t kMostTensors = 1 << 24, kMostDimensions = 64;
constexpr std::size_t kNumbersOfPlace = 6;  // at least

bool is_plain(at::ScalarType type) {
  return at::isFloatingType(type) || at::isIntegralType(type, /*includeBool=*/true) || at::isComplexType(type);
}

/// The tensors of a layout; `made(place)` gives those that have memory of their own.
template <class Made>
std::vector<at::Tensor> tensors_of(const TensorLayout& layout, const Made& made) {
  const at::NoGradGuard no_gradients;
  std::vector<at::Tensor> tensors;
  for (const TensorLayout::Place& place : layout.places) {
    if (!place.defined) {
      tensors.emplace_back();
    } else if (place.same_as >= 0) {
      tensors.push_back(tensors.at(as_index(place.same_as)));
    } else {
      tensors.push_back(made(place));
      tensors.back().set_requires_grad(place.requires_grad);
    }
  }
  return tensors;
}

}  // namespace

TensorLayout layout_of(const std::vector<at::Tensor>& tensors) {
  TensorLayout layout;
  for (const at::Tensor& tensor : tensors) {
    TensorLayout::Place& place = layout.places.emplace_back();
    place.defined = tensor.defined();
    if (!place.defined) continue;
    const auto same = std::ranges::find_if(tensors, [&](const at::Tensor& other) { return other.is_same(tensor); });
    if (const auto index = static_cast<int>(same - tensors.begin()); index + 1 < std::ssize(layout.places)) {
      place.same_as = index;
      continue;
    }
    const at::Tensor like = at::empty_like(tensor, tensor.options().device(at::kMeta), at::MemoryFormat::Preserve);
    place.type = tensor.scalar_type();
    place.requires_grad = tensor.requires_grad();
    place.sizes = like.sizes().vec();
    place.strides = like.strides().vec();
    place.offset = layout.bytes;
    layout.bytes = aligned(layout.bytes + static_cast<std::int64_t>(like.nbytes()));
  }
  return layout;
}

void pack(const std::vector<at::Tensor>& tensors, const TensorLayout& layout, const at::Tensor& memory, std::int64_t first) {
  const at::NoGradGuard no_gradients;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorLayout::Place& place = layout.places[i];
    if (place.has_memory()) tensor_at(place, memory, first).copy_(tensors[i]);
  }
}

std::vector<at::Tensor> unpack(const TensorLayout& layout, const at::Tensor& memory, std::int64_t first) {
  return tensors_of(layout, [&](const TensorLayout::Place& place) { return tensor_at(place, memory, first); });
}

std::vector<at::Tensor> flat_tensors(const std::vector<at::Tensor>& tensors, const TensorLayout& layout) {
  const at::NoGradGuard no_gradients;
  std::vector<at::Tensor> flat;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorLayout::Place& place = layout.places[i];
    if (!place.has_memory()) continue;
    const at::Tensor own = tensors[i].detach().resolve_conj().resolve_neg();
    const bool lies_so = own.numel() == 0 || own.strides() == place.strides;
    const at::Tensor dense = lies_so ? own : at::empty_strided(place.sizes, place.strides, own.options()).copy_(own);
    flat.push_back(dense.as_strided({dense.numel()}, {1}));
  }
  return flat;
}

std::vector<at::Tensor> flat_likes(const TensorLayout& layout) {
  std::vector<at::Tensor> likes;
  for (const TensorLayout::Place& place : layout.places)
    if (place.has_memory())
      likes.push_back(at::empty({c10::multiply_integers(place.sizes)}, at::TensorOptions(place.type).device(at::kMeta)));
  return likes;
}

std::vector<at::Tensor> from_flat(const TensorLayout& layout, const std::vector<at::Tensor>& flat) {
  std::size_t next = 0;
  return tensors_of(layout, [&](const TensorLayout::Place& place) {
    const at::Tensor& memory = flat.at(next++);
    return at::empty({0}, memory.options()).set_(memory.storage(), memory.storage_offset(), place.sizes, place.strides);
  });
}

std::vector<std::int64_t> numbers_of(const TensorLayout& layout) {
  std::vector<std::int64_t> numbers{layout.bytes, std::ssize(layout.places)};
  for (const TensorLayout::Place& place : layout.places) {
    numbers.insert(numbers.end(), {place.defined ? 1 : 0, place.same_as, static_cast<std::int64_t>(place.type), place.requires_grad ? 1 : 0,
                                   place.offset, std::ssize(place.sizes)});
    numbers.insert(numbers.end(), place.sizes.begin(), place.sizes.end());
    numbers.insert(numbers.end(), place.strides.begin(), place.strides.end());
  }
  return numbers;
}

TensorLayout layout_from(const std::vector<std::int64_t>& numbers) {
  Reader reader(numbers);
  TensorLayout layout;
  layout.bytes = reader.next(0, kMost);
  layout.places.resize(as_index(reader.next(0, std::min(kMostTensors, std::ssize(numbers) / static_cast<std::int64_t>(kNumbersOfPlace)))));
  for (std::size_t i = 0; i < layout.places.size(); ++i) {
    TensorLayout::Place& place = layout.places[i];
    place.defined = reader.next(0, 1) == 1;
    place.same_as = static_cast<int>(reader.next(-1, static_cast<std::int64_t>(i) - 1));
    place.type = static_cast<at::ScalarType>(reader.next(0, static_cast<std::int64_t>(at::ScalarType::NumOptions) - 1));
    if (!is_plain(place.type)) refuse_message();
    place.requires_grad = reader.next(0, at::isFloatingType(place.type) || at::isComplexType(place.type) ? 1 : 0) == 1;
    place.offset = reader.next(0, layout.bytes);
    place.sizes.resize(as_index(reader.next(0, kMostDimensions)));
    place.strides.resize(place.sizes.size());
    for (std::int64_t& size : place.sizes) size = reader.next(0, kMost);
    for (std::int64_t& stride : place.strides) stride = reader.next(0, kMost);
    if (!fits(place, layout.bytes)) refuse_message();
  }
  return layout;
}

}  // namespace mptune::tuner
