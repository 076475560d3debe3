#include "profiler/trace/formats/text_input.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/text.h"

namespace mptune::profiler {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;
constexpr std::int64_t kMostBytes = 4 * kGiB;
// Traces of profilers shrink 10 to 30 times when they are compressed.
constexpr std::int64_t kMostTimesPacked = 100;
constexpr std::int64_t kAnyUnpacked = kGiB / 4;
constexpr const char* kLimitVariable = "MPTUNE_UNPACKED_GIB";
constexpr std::int64_t kMostBetweenTokens = std::int64_t{16} << 20;
constexpr std::int64_t kMostBetweenItems = kGiB / 2;
constexpr std::size_t kBlock = std::size_t{1} << 16;

constexpr std::size_t kNear = 60;

/// Returns the bytes of text that a file may hold, if the user says it.
std::optional<std::int64_t> limit_of_user() {
  const char* text = std::getenv(kLimitVariable);
  if (text == nullptr || *text == '\0') return std::nullopt;
  const auto number = integer(text);
  if (!number || *number < 1 || *number > 1'000'000)
    throw Error(std::string("'") + std::string(text).substr(0, 40) + "' is not a number of GiB", kLimitVariable,
                "give a whole number from 1");
  return *number * kGiB;
}

/// Counts what a file unpacks to, and refuses what is more than a trace is.
class UnpackedLimit {
 public:
  explicit UnpackedLimit(const std::string& path) : limit_(limit_of_user()) {
    std::error_code ignored;
    const std::uintmax_t packed = std::filesystem::file_size(path, ignored);
    if (!limit_ && !ignored) limit_ = std::max(kAnyUnpacked, kMostTimesPacked * static_cast<std::int64_t>(packed));
  }
  void count(std::size_t bytes, const std::string& path) {
    bytes_ += static_cast<std::int64_t>(bytes);
    if (limit_ && bytes_ > *limit_)
      throw Error("it unpacks to more than " + std::to_string(*limit_ >> 20) + " MiB of text", path,
                  std::string("if you trust it, set ") + kLimitVariable + " to the GiB that it may have");
  }

 private:
  std::optional<std::int64_t> limit_;
  std::int64_t bytes_ = 0;
};

// True for a byte that continues a UTF-8 character.
bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

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
  const std::string_view block(eback(), as_index(gptr() - eback()));
  lines_ += std::count(block.begin(), block.end(), '\n');
  if (const auto end = block.rfind('\n'); end != std::string_view::npos) line_start_ = before_ + static_cast<std::int64_t>(end) + 1;
  tail_ += block.substr(block.size() - std::min(block.size(), kNear));
  tail_.erase(0, tail_.size() - std::min(tail_.size(), kNear));
  before_ = position();
  setg(block_.data(), block_.data(), block_.data());
  if (before_ - token_ > kMostBetweenTokens) throw Error("a value is longer than 16 MiB", where_, "give a trace that a profiler wrote");
  if (before_ > limit_of_user().value_or(kMostBytes))
    throw Error("the file holds more than 4 GiB of text", where_,
                std::string("record or keep fewer steps, or set ") + kLimitVariable + " to the GiB that it may have");
  if (item_ && before_ - *item_ > kMostBetweenItems && !limit_of_user())
    throw Error("512 MiB of its text hold no event", where_,
                std::string("give a trace as a profiler wrote it, or set ") + kLimitVariable + " to the GiB that it may have");
  const std::size_t count = read_(block_.data(), block_.size());
  setg(block_.data(), block_.data(), block_.data() + count);
  return count == 0 ? traits_type::eof() : traits_type::to_int_type(block_.front());
}

TextPlace TextInput::place(std::int64_t count) const {
  TextPlace place;
  place.at_end = count > position();
  count = std::min(count, position());
  const std::string text = tail_ + std::string(eback(), egptr());
  const auto first = before_ - static_cast<std::int64_t>(tail_.size());  // bytes before `text`
  const auto at = as_index(std::clamp<std::int64_t>(count - 1 - first, 0, static_cast<std::int64_t>(text.size())));
  const auto in_block = std::max(at, tail_.size());
  const std::string_view seen = std::string_view(text).substr(tail_.size(), in_block - tail_.size());
  place.line = 1 + lines_ + std::count(seen.begin(), seen.end(), '\n');
  const auto end_of_line = seen.rfind('\n');
  const std::int64_t line = end_of_line == std::string_view::npos ? line_start_ : before_ + static_cast<std::int64_t>(end_of_line) + 1;
  place.column = std::max<std::int64_t>(count - line, 1);
  std::size_t from = at - std::min(at, kNear / 2);
  if (const auto newline = text.rfind('\n', at == 0 ? 0 : at - 1); newline != std::string::npos && at > 0 && newline >= from)
    from = newline + 1;
  while (from < at && is_continuation(text[from])) ++from;
  std::size_t until = std::min({text.size(), at + kNear / 2, text.find('\n', at)});
  while (until > at && until < text.size() && is_continuation(text[until])) --until;
  place.near = text.substr(from, until - from);
  return place;
}

TextInput open_text(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw Error("the path is a folder", path, "name a file");
  std::shared_ptr<gzFile_s> file(gzopen(path.c_str(), "rbe"), [](gzFile opened) {
    if (opened != nullptr) gzclose_r(opened);
  });
  if (file == nullptr)
    throw Error(std::string("it can't be opened: ") + std::strerror(errno), path, "check the name and the permissions of the file");
  return {path, [file, path, limit = UnpackedLimit(path)](char* data, std::size_t size) mutable {
            const std::size_t bytes = read_block(file.get(), data, size, path);
            limit.count(bytes, path);
            return bytes;
          }};
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
