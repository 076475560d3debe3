#include "profiler/model/files/npy_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ATen/ATen.h>

#include <array>
#include <charconv>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "profiler/base/error.h"

namespace mptune::profiler {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMostHeaderText = 65536;
constexpr std::size_t kMostAxes = 64;
constexpr const char* kWriteAgain = "write it with numpy.save from an array of numbers: numpy.ascontiguousarray(array)";

constexpr std::array<std::pair<std::string_view, at::ScalarType>, 11> kArrayTypes = {{{"<f4", at::kFloat},
                                                                                      {"<f8", at::kDouble},
                                                                                      {"<f2", at::kHalf},
                                                                                      {"<i8", at::kLong},
                                                                                      {"<i4", at::kInt},
                                                                                      {"<i2", at::kShort},
                                                                                      {"|i1", at::kChar},
                                                                                      {"|u1", at::kByte},
                                                                                      {"|b1", at::kBool},
                                                                                      {"<c8", at::kComplexFloat},
                                                                                      {"<c16", at::kComplexDouble}}};

/// A file as bytes, which are read when they are first touched.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path) {
    const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat about {};
    if (descriptor < 0 || fstat(descriptor, &about) != 0 || !S_ISREG(about.st_mode)) {
      if (descriptor >= 0) close(descriptor);
      throw Error("the file can't be read", path, "check the path and its permissions");
    }
    size_ = static_cast<std::size_t>(about.st_size);
    if (size_ > 0) data_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
    close(descriptor);
    if (data_ == MAP_FAILED) throw Error("the file can't be mapped into memory", path, "check that it lies on a disk of this machine");
  }
  ~MappedFile() {
    if (data_ != nullptr && data_ != MAP_FAILED) munmap(data_, size_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::string_view bytes() const { return {static_cast<const char*>(data_), size_}; }
  [[nodiscard]] char* at(std::size_t offset) const { return static_cast<char*>(data_) + offset; }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Returns what follows `key` in the header, a Python dict that NumPy writes in one way only.
std::optional<std::string_view> value_of(std::string_view header, std::string_view key) {
  const std::string quoted = "'" + std::string(key) + "':";
  const std::size_t found = header.find(quoted);
  if (found == std::string_view::npos) return std::nullopt;
  std::string_view rest = header.substr(found + quoted.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  return rest;
}

std::optional<at::ScalarType> type_in(std::string_view header) {
  const auto value = value_of(header, "descr");
  if (!value || !value->starts_with('\'')) return std::nullopt;
  const std::string_view name = value->substr(1, value->find('\'', 1) - 1);
  for (const auto& [known, type] : kArrayTypes)
    if (known == name) return type;
  return std::nullopt;
}

std::optional<std::vector<std::int64_t>> shape_in(std::string_view header) {
  const auto value = value_of(header, "shape");
  const std::size_t end = value ? value->find(')') : std::string_view::npos;
  if (!value || !value->starts_with('(') || end == std::string_view::npos) return std::nullopt;
  std::vector<std::int64_t> shape;
  for (const char *at = value->data() + 1, *last = value->data() + end; at < last;) {
    std::int64_t size = 0;
    const auto [next, error] = std::from_chars(at, last, size);
    if (error != std::errc() || size < 0 || shape.size() == kMostAxes) return std::nullopt;
    shape.push_back(size);
    for (at = next; at < last && (*at == ',' || *at == ' '); ++at) continue;
  }
  return shape;
}

/// Returns the bytes of an array of this shape; nullopt if they are more than any file has.
std::optional<std::size_t> bytes_of(const std::vector<std::int64_t>& shape, at::ScalarType type) {
  std::size_t bytes = at::elementSize(type);
  for (const std::int64_t size : shape)
    if (__builtin_mul_overflow(bytes, static_cast<std::size_t>(size), &bytes)) return std::nullopt;
  return bytes <= static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max()) ? std::optional(bytes) : std::nullopt;
}

/// Returns where the header begins, and its length.
std::pair<std::size_t, std::size_t> header_place(std::string_view file, const std::string& path) {
  constexpr std::size_t kVersionEnd = 8;
  if (file.size() < kVersionEnd + 2 || !file.starts_with(kMagic)) throw Error("this is not an array of NumPy", path, kWriteAgain);
  const int major = file[kMagic.size()];
  if (major < 1 || major > 3) throw Error("the file has version " + std::to_string(major) + " of NumPy's format", path, kWriteAgain);
  const std::size_t width = major == 1 ? 2 : 4;
  std::size_t length = 0;
  for (std::size_t i = 0; i < width && kVersionEnd + i < file.size(); ++i)
    length |= static_cast<std::size_t>(static_cast<unsigned char>(file[kVersionEnd + i])) << (8 * i);
  const std::size_t begin = kVersionEnd + width;
  if (length > kMostHeaderText || begin + length > file.size()) throw Error("the file is truncated or damaged", path, kWriteAgain);
  return {begin, length};
}

}  // namespace

at::Tensor map_npy_file(const std::string& path) {
  const auto file = std::make_shared<const MappedFile>(path);
  const auto [begin, length] = header_place(file->bytes(), path);
  const std::string_view header = file->bytes().substr(begin, length);
  const auto type = type_in(header);
  if (!type) throw Error("its elements are of a type that tensors do not have, or not little-endian numbers", path, kWriteAgain);
  const auto order = value_of(header, "fortran_order");
  if (!order || !order->starts_with("False")) throw Error("the array is in Fortran order", path, kWriteAgain);
  const auto shape = shape_in(header);
  if (!shape) throw Error("the file's header does not say the shape", path, kWriteAgain);
  const std::size_t data = begin + length;
  const auto bytes = bytes_of(*shape, *type);
  if (!bytes || *bytes > file->bytes().size() - data) throw Error("the file is truncated", path, kWriteAgain);
  if (data % at::elementSize(*type) != 0) throw Error("the file's numbers are not aligned", path, kWriteAgain);
  return at::from_blob(
      file->at(data), *shape, [file](void*) {}, at::TensorOptions(*type));
}

}  // namespace mptune::profiler
