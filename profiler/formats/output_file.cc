#include "mptune/profiler/formats/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "mptune/profiler/base/error.h"

namespace mptune {
namespace {

constexpr std::size_t kBuffer = std::size_t{1} << 18;

}  // namespace

OutputFile::OutputFile(std::string path) : path_(std::move(path)) {
  static std::atomic<int> count{0};
  temporary_ = path_ + ".tmp-" + std::to_string(getpid()) + "-" + std::to_string(count++);
  descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail("the file can't be created");
}

OutputFile::~OutputFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(temporary_.c_str());
}

OutputFile& OutputFile::operator<<(std::string_view text) {
  buffer_ += text;
  if (buffer_.size() >= kBuffer) flush();
  return *this;
}

void OutputFile::flush() {
  for (std::size_t done = 0; done < buffer_.size();) {
    const ssize_t count = write(descriptor_, buffer_.data() + done, buffer_.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail("the file can't be written");
    done += static_cast<std::size_t>(count);
  }
  buffer_.clear();
}

void OutputFile::commit() {
  flush();
  if (fsync(descriptor_) != 0) fail("the file can't be written");
  if (rename(temporary_.c_str(), path_.c_str()) != 0) fail("the file can't be renamed");
  close(descriptor_);
  descriptor_ = -1;
}

void OutputFile::fail(const char* what) const {
  const int code = errno;
  const bool full = code == ENOSPC || code == EDQUOT || code == EIO;
  throw Error(std::string(what) + ": " + std::strerror(code), path_, "name a file in a writable folder with space left",
              full ? ExitCode::environment : ExitCode::usage);
}

std::string microseconds_text(long long nanoseconds) {
  std::array<char, 40> text{};
  const bool negative = nanoseconds < 0;
  const long long size = negative ? -nanoseconds : nanoseconds;
  const int length = std::snprintf(text.data(), text.size(), "%s%lld.%03lld", negative ? "-" : "", size / 1000, size % 1000);
  return {text.data(), static_cast<std::size_t>(length)};
}

std::string json_text(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace mptune
