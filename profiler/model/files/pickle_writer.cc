#include "profiler/model/files/pickle.h"

#include <map>
#include <utility>

#include "profiler/model/layers/scalar_types.h"

namespace mptune::profiler {
namespace {

void put_little_endian(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

void put_string(std::string& out, const std::string& text) {
  out += 'X';
  put_little_endian(out, text.size(), 4);
  out += text;
}

void put_integer(std::string& out, std::int64_t value) {
  out += static_cast<char>(0x8a);
  out += static_cast<char>(8);
  put_little_endian(out, static_cast<std::uint64_t>(value), 8);
}

void put_integers(std::string& out, at::IntArrayRef values) {
  out += '(';
  for (const auto value : values) put_integer(out, value);
  out += 't';
}

const char* storage_name(at::ScalarType type) {
  for (const auto& names : scalar_types())
    if (names.type == type) return names.storage;
  throw PickleError(std::string("tensors of type ") + c10::toString(type) + " cannot be saved");
}

// torch._utils._rebuild_tensor_v2(storage, offset, sizes, strides, requires_grad, backward_hooks)
void put_tensor(std::string& out, const at::Tensor& tensor, std::size_t index) {
  out += "ctorch._utils\n_rebuild_tensor_v2\n((";
  put_string(out, "storage");
  out += std::string("ctorch\n") + storage_name(tensor.scalar_type()) + "\n";
  put_string(out, std::to_string(index));
  put_string(out, "cpu");
  put_integer(out, tensor.numel());
  out += "tQ";
  put_integer(out, 0);
  put_integers(out, tensor.sizes());
  put_integers(out, tensor.strides());
  out += static_cast<char>(0x89);
  out += "ccollections\nOrderedDict\n)RtR";
}

}  // namespace

std::vector<std::size_t> storages_of(const std::vector<std::pair<std::string, at::Tensor>>& tensors) {
  std::vector<std::size_t> storages;
  std::map<std::pair<const void*, std::size_t>, std::size_t> first;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& tensor = tensors[i].second;
    const std::size_t bytes = tensor.nbytes();
    storages.push_back(bytes == 0 ? i : first.try_emplace({tensor.const_data_ptr(), bytes}, i).first->second);
  }
  return storages;
}

std::string write_pickle(const std::vector<std::pair<std::string, at::Tensor>>& tensors) {
  std::string out{static_cast<char>(0x80), 2};
  out += "ccollections\nOrderedDict\n)R(";
  const std::vector<std::size_t> storages = storages_of(tensors);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    put_string(out, tensors[i].first);
    put_tensor(out, tensors[i].second, storages[i]);
  }
  return out + "u.";
}

}  // namespace mptune::profiler
