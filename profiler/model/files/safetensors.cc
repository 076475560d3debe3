#include "profiler/model/files/safetensors.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/new_file.h"
#include "profiler/model/layers/scalar_types.h"

namespace mptune::profiler {
namespace {

static_assert(std::endian::native == std::endian::little, "the format's numbers are little-endian, and so are the tensors'");

using nlohmann::json;

constexpr std::int64_t kMostHeaderBytes = 100'000'000;  // the format's own limit
constexpr std::int64_t kMostDimensions = 64;            // LibTorch's
constexpr const char* kMetadata = "__metadata__";
constexpr const char* kSaveBySafetensors = "save it again with safetensors.torch.save_file or save_model";

constexpr std::array<std::pair<at::ScalarType, const char*>, 10> kTypes = {{{at::kFloat, "F32"},
                                                                            {at::kDouble, "F64"},
                                                                            {at::kHalf, "F16"},
                                                                            {at::kBFloat16, "BF16"},
                                                                            {at::kLong, "I64"},
                                                                            {at::kInt, "I32"},
                                                                            {at::kShort, "I16"},
                                                                            {at::kChar, "I8"},
                                                                            {at::kByte, "U8"},
                                                                            {at::kBool, "BOOL"}}};

std::optional<at::ScalarType> type_of(const std::string& name) {
  for (const auto& [type, text] : kTypes)
    if (name == text) return type;
  return std::nullopt;
}

std::string name_of(at::ScalarType type, const std::string& tensor, const std::string& path) {
  for (const auto& [known, text] : kTypes)
    if (type == known) return text;
  throw Error("'" + tensor + "' is " + scalar_type_name(type) + ", which safetensors files cannot hold", path,
              "convert the model's tensors to a common type");
}

/// One checked entry of the header.
struct Stored {
  std::string name;
  at::ScalarType type = at::kFloat;
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0, end = 0;
};

class SafetensorsReader {
 public:
  explicit SafetensorsReader(const std::string& path) : path_(path), in_(path, std::ios::binary) {
    std::error_code failed;
    if (std::filesystem::is_regular_file(path, failed)) file_bytes_ = static_cast<std::int64_t>(std::filesystem::file_size(path, failed));
    if (!in_ || failed || !std::filesystem::is_regular_file(path, failed))
      throw Error("no such file, or it cannot be read", path, "name a file saved with safetensors or torch.save");
  }

  TensorDict read() {
    std::vector<Stored> entries = entries_of(header());
    std::sort(entries.begin(), entries.end(),
              [](const Stored& a, const Stored& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
    check_cover(entries);
    TensorDict tensors;
    for (const Stored& entry : entries) tensors.emplace_back(entry.name, tensor_of(entry));
    return tensors;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const { throw Error("not a safetensors file: " + what, path_, kSaveBySafetensors); }

  void take(void* to, std::int64_t bytes) {
    in_.read(static_cast<char*>(to), bytes);
    if (in_.gcount() != bytes) refuse("it is cut short");
  }

  json header() {
    std::uint64_t bytes = 0;
    if (file_bytes_ < 8) refuse("it is cut short");
    take(&bytes, 8);
    if (bytes > static_cast<std::uint64_t>(std::min(kMostHeaderBytes, file_bytes_ - 8)))
      refuse("its header claims " + std::to_string(bytes) + " bytes of " + std::to_string(file_bytes_));
    std::string text(as_index(bytes), '\0');
    take(text.data(), static_cast<std::int64_t>(bytes));
    data_bytes_ = file_bytes_ - 8 - static_cast<std::int64_t>(bytes);
    // A header is an object of objects of lists; deeper values are discarded by the parser.
    json header = json::parse(
        text, [](int depth, json::parse_event_t, json&) { return depth <= 3; }, /*allow_exceptions=*/false);
    if (!header.is_object()) refuse("its header is not a JSON object");
    return header;
  }

  std::vector<Stored> entries_of(const json& header) const {
    std::vector<Stored> entries;
    for (const auto& [name, about] : header.items())
      if (name != kMetadata) entries.push_back(entry_of(name, about));
    return entries;
  }

  Stored entry_of(const std::string& name, const json& about) const {
    if (!about.is_object() || !about.contains("dtype") || !about["dtype"].is_string()) refuse("'" + name + "' has no dtype");
    const auto type = type_of(about["dtype"].get_ref<const std::string&>());
    if (!type) refuse("'" + name + "' is of an element type that mptune does not read: " + about["dtype"].get<std::string>().substr(0, 20));
    const std::vector<std::int64_t> offsets = numbers(name, about, "data_offsets");
    if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data_bytes_)
      refuse("'" + name + "' lies outside its " + std::to_string(data_bytes_) + " bytes of data");
    Stored entry{name, *type, numbers(name, about, "shape"), offsets[0], offsets[1]};
    check_shape(entry);
    return entry;
  }

  std::vector<std::int64_t> numbers(const std::string& name, const json& about, const char* key) const {
    if (!about.contains(key) || !about[key].is_array()) refuse("'" + name + "' has no " + key);
    std::vector<std::int64_t> numbers;
    for (const json& number : about[key]) {
      if (!number.is_number_unsigned() || number.get<std::uint64_t>() > INT64_MAX)
        refuse("'" + name + "' has a " + key + " of other things than sizes");
      numbers.push_back(number.get<std::int64_t>());
    }
    return numbers;
  }

  void check_shape(const Stored& entry) const {
    auto bytes = static_cast<std::int64_t>(c10::elementSize(entry.type));
    const bool empty = std::find(entry.shape.begin(), entry.shape.end(), 0) != entry.shape.end();
    bool overflow = static_cast<std::int64_t>(entry.shape.size()) > kMostDimensions;
    for (const std::int64_t size : entry.shape)
      overflow = overflow || __builtin_mul_overflow(bytes, std::max<std::int64_t>(1, size), &bytes);
    if (overflow || (empty ? 0 : bytes) != entry.end - entry.begin)
      refuse("'" + entry.name + "' has " + std::to_string(entry.end - entry.begin) + " bytes, which its shape and type do not");
  }

  /// Checks that the tensors cover the data exactly, without gaps and overlaps. Requires: sorted by position.
  void check_cover(const std::vector<Stored>& entries) const {
    std::int64_t end = 0;
    for (const Stored& entry : entries) {
      if (entry.begin < end) refuse("'" + entry.name + "' overlaps another tensor");
      if (entry.begin > end) refuse("there is a gap before '" + entry.name + "'");
      end = entry.end;
    }
    if (end != data_bytes_) refuse(std::to_string(data_bytes_ - end) + " bytes at its end belong to no tensor");
  }

  at::Tensor tensor_of(const Stored& entry) {
    at::Tensor tensor = at::empty(entry.shape, entry.type);
    take(tensor.mutable_data_ptr(), entry.end - entry.begin);
    if (entry.type == at::kBool) {
      const auto* bytes = static_cast<const std::uint8_t*>(tensor.const_data_ptr());
      if (std::any_of(bytes, bytes + tensor.numel(), [](std::uint8_t byte) { return byte > 1; }))
        refuse("'" + entry.name + "' has truth values that are neither true nor false");
    }
    return tensor;
  }

  std::string path_;
  std::ifstream in_;
  std::int64_t file_bytes_ = 0, data_bytes_ = 0;
};

std::string header_of(const TensorDict& tensors, const std::map<std::string, std::string>& metadata, const std::string& path) {
  // Entries have the order of the data, since readers show them in this order.
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  header[kMetadata] = {{"format", "pt"}};
  for (const auto& [name, text] : metadata) header[kMetadata][name] = text;
  std::int64_t begin = 0;
  for (const auto& [name, tensor] : tensors) {
    const std::int64_t end = begin + static_cast<std::int64_t>(tensor.nbytes());
    header[name] = {{"dtype", name_of(tensor.scalar_type(), name, path)}, {"shape", tensor.sizes().vec()}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

}  // namespace

bool is_safetensors(const std::string& path) {
  std::array<char, 9> start{};
  std::ifstream in(path, std::ios::binary);
  return in.read(start.data(), start.size()) && start[8] == '{';
}

TensorDict read_safetensors(const std::string& path) {
  return SafetensorsReader(path).read();
}

void write_safetensors(const std::string& path, const TensorDict& tensors, const std::map<std::string, std::string>& metadata) {
  TensorDict flat;
  for (const auto& [name, tensor] : tensors) flat.emplace_back(name, tensor.detach().to(at::kCPU).contiguous());
  // Largest elements first, so that each tensor is aligned to its element size.
  std::stable_sort(flat.begin(), flat.end(),
                   [](const auto& a, const auto& b) { return a.second.element_size() > b.second.element_size(); });
  const std::string header = header_of(flat, metadata, path);
  const std::uint64_t bytes = header.size();
  NewFile file(path, ExitCode::environment);
  file << std::string_view(reinterpret_cast<const char*>(&bytes), sizeof bytes) << header;
  for (const auto& [name, tensor] : flat) file << std::string_view(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes());
  file.commit();
}

bool safetensors_hold(at::ScalarType type) {
  return std::ranges::any_of(kTypes, [type](const auto& known) { return known.first == type; });
}

}  // namespace mptune::profiler
