#include "mptune/profiler/state/new_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "mptune/profiler/base/error.h"

namespace mptune {
namespace {

[[noreturn]] void fail_to_write(const std::string& path, int error) {
  throw Error(std::string("cannot write: ") + std::strerror(error), path, "choose a writable folder with free space",
              ExitCode::environment);
}

}  // namespace

NewFile::NewFile(const std::string& path)
    : path_(path),
      temporary_(path + ".part" + std::to_string(::getpid())),
      descriptor_(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0) fail_to_write(path_, errno);
}

NewFile::~NewFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

std::size_t NewFile::write(const void* data, std::size_t bytes) {
  std::size_t done = 0;
  while (error_ == 0 && done < bytes) {
    const auto count = ::write(descriptor_, static_cast<const char*>(data) + done, bytes - done);
    if (count < 0 && errno != EINTR) error_ = errno;
    done += count > 0 ? static_cast<std::size_t>(count) : 0;
  }
  return done;
}

void NewFile::check() const {
  if (error_ != 0) fail_to_write(path_, error_);
}

void NewFile::commit() {
  check();
  if (::fsync(descriptor_) != 0 || ::rename(temporary_.c_str(), path_.c_str()) != 0) fail_to_write(path_, errno);
  ::close(descriptor_);
  descriptor_ = -1;
}

}  // namespace mptune
