#include "tuner/distributed/tensor_text.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace mptune::tuner {

at::Tensor text_as_tensor(const std::string& text) {
  const at::Tensor bytes = at::empty({static_cast<std::int64_t>(text.size())}, at::kByte);
  std::ranges::copy(text, reinterpret_cast<char*>(bytes.data_ptr<std::uint8_t>()));
  return bytes;
}

std::string text_in(const at::Tensor& bytes) {
  return {reinterpret_cast<const char*>(bytes.const_data_ptr<std::uint8_t>()), bytes.nbytes()};
}

}  // namespace mptune::tuner
