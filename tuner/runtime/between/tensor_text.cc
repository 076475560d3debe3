#include "tuner/runtime/between/tensor_text.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "profiler/base/error.h"

namespace mptune::tuner {
namespace {

template <typename Number>
std::vector<Number> elements_of(const at::Tensor& tensor, at::ScalarType type) {
  if (!tensor.defined() || !tensor.is_cpu() || tensor.scalar_type() != type || !tensor.is_contiguous()) refuse_message();
  const auto* const first = tensor.const_data_ptr<Number>();
  return {first, first + tensor.numel()};
}

}  // namespace

at::Tensor text_as_tensor(const std::string& text) {
  const at::Tensor bytes = at::empty({static_cast<std::int64_t>(text.size())}, at::kByte);
  std::ranges::copy(text, reinterpret_cast<char*>(bytes.data_ptr<std::uint8_t>()));
  return bytes;
}

std::string text_in(const at::Tensor& bytes) {
  const std::vector<std::uint8_t> elements = elements_of<std::uint8_t>(bytes, at::kByte);
  return {elements.begin(), elements.end()};
}

std::vector<std::int64_t> whole_numbers_in(const at::Tensor& numbers) {
  return elements_of<std::int64_t>(numbers, at::kLong);
}

std::vector<double> numbers_in(const at::Tensor& numbers) {
  return elements_of<double>(numbers, at::kDouble);
}

void refuse_message() {
  throw Error("a message of another rank is damaged", "ranks", "make sure that all ranks run the same build of mptune", ExitCode::internal);
}

}  // namespace mptune::tuner
