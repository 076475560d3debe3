#include "planner/cost/layer_tensors.h"

#include <algorithm>
#include <charconv>
#include <string>

namespace mptune {
namespace {

// Returns the bytes of a tensor: "3x64x64:float32" -> 3 * 64 * 64 * 4; "scalar:int64" -> 8.
std::int64_t bytes_of_tensor(const std::string& shape) {
  const std::size_t colon = std::min(shape.find(':'), shape.size());
  const std::string type = shape.substr(std::min(colon + 1, shape.size()));
  std::int64_t bytes = type == "int64" || type == "float64" ? 8 : 4;
  if (shape.substr(0, colon) == "scalar") return bytes;
  const char* at = shape.data();
  const char* const end = shape.data() + colon;
  while (at < end) {
    std::int64_t extent = 0;
    const auto [next, error] = std::from_chars(at, end, extent);
    if (error != std::errc() || extent < 1 || bytes > (std::int64_t{1} << 50) / extent) return 0;
    bytes *= extent;
    at = next + 1;
  }
  return shape.empty() ? 0 : bytes;
}

// Returns the bytes of all tensors: "words=64:int64,mask=64:int64" -> the sum of both.
std::int64_t bytes_of_shape(const std::string& input) {
  std::int64_t bytes = 0;
  for (std::size_t start = 0; start < input.size();) {
    const std::size_t end = std::min(input.find(',', start), input.size());
    const std::string tensor = input.substr(start, end - start);
    bytes += bytes_of_tensor(tensor.substr(tensor.find('=') + 1));
    start = end + 1;
  }
  return bytes;
}

}  // namespace

LayerTensors::LayerTensors(const Profile& profile)
    : tensors_(profile_tensors(profile)),
      is_chain_(mptune::is_chain(profile)),
      made_(profile.layers.size()),
      reads_inputs_(profile.layers.size(), true),
      outputs_(profile.layers.size() + 1),
      gradients_(profile.layers.size() + 1),
      input_bytes_per_sample_(bytes_of_shape(profile.fingerprint.input.empty() ? profile.input : profile.fingerprint.input)) {
  for (const ProfileTensor& tensor : tensors_) add(tensor);
}

void LayerTensors::add(const ProfileTensor& tensor) {
  const TensorSize size{tensor.bytes_per_sample, tensor.fixed_bytes};
  made_[as_index(tensor.maker)] += size;
  for (const int reader : tensor.readers) reads_inputs_[as_index(reader)] = false;
  for (int layer = tensor.maker + 1; layer <= tensor.readers.back(); ++layer) outputs_[as_index(layer)] += size;
  if (tensor.gradient_readers.empty()) return;
  for (int layer = tensor.maker + 1; layer <= tensor.gradient_readers.back(); ++layer) gradients_[as_index(layer)] += size;
}

}  // namespace mptune
