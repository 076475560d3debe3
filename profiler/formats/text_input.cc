#include "profiler/formats/text_input.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "profiler/base/error.h"
#include "profiler/base/index.h"

namespace mptune::profiler {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{4} << 30;
constexpr std::int64_t kMostBetweenTokens = std::int64_t{16} << 20;
constexpr std::size_t kBlock = std::size_t{1} << 16;

std::size_t read_block(gzFile file, char* data, std::size_t size, const std::string& where) {
  const int count = gzread(file, data, static_cast<unsigned>(size));
  int code = Z_OK;
  const std::string message = gzerror(file, &code);
  if (code == Z_ERRNO) throw Error(std::string("it can't be read: ") + std::strerror(errno), where, "check the file and its disk");
  if (count < 0 || code == Z_BUF_ERROR)
    throw Error(code == Z_BUF_ERROR ? "its compressed data is truncated" : "its compressed data is damaged", where,
                "copy or record the file again");
  return as_index(count);
}

}  // namespace

TextInput::TextInput(std::string where, Read read) : where_(std::move(where)), read_(std::move(read)), block_(kBlock) {}

TextInput::int_type TextInput::underflow() {
  before_ = position();
  setg(block_.data(), block_.data(), block_.data());
  if (before_ - token_ > kMostBetweenTokens) throw Error("a value is longer than 16 MiB", where_, "give a trace that a profiler wrote");
  if (before_ > kMostBytes) throw Error("the file holds more than 4 GiB of text", where_, "record or keep fewer steps");
  const std::size_t count = read_(block_.data(), block_.size());
  setg(block_.data(), block_.data(), block_.data() + count);
  return count == 0 ? traits_type::eof() : traits_type::to_int_type(block_.front());
}

TextInput open_text(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw Error("the path is a folder", path, "name a file");
  std::shared_ptr<gzFile_s> file(gzopen(path.c_str(), "rbe"), [](gzFile opened) {
    if (opened != nullptr) gzclose_r(opened);
  });
  if (file == nullptr)
    throw Error(std::string("it can't be opened: ") + std::strerror(errno), path, "check the name and the permissions of the file");
  return {path, [file, path](char* data, std::size_t size) { return read_block(file.get(), data, size, path); }};
}

TextInput text_in_memory(const char* data, std::size_t size) {
  return {"memory", [data, size](char* target, std::size_t most) mutable {
            const std::size_t count = std::min(most, size);
            std::copy_n(data, count, target);
            data += count;
            size -= count;
            return count;
          }};
}

}  // namespace mptune::profiler
