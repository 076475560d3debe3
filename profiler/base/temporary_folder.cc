#include "profiler/base/temporary_folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "profiler/base/error.h"

namespace mptune {
namespace {

constexpr const char* kPrefix = "mptune-run-";

std::string standard_folder() {
  const char* named = std::getenv("TMPDIR");
  return named == nullptr || *named == 0 ? "/tmp" : named;
}

}  // namespace

TemporaryFolder::TemporaryFolder() : TemporaryFolder(standard_folder()) {}

TemporaryFolder::TemporaryFolder(const std::string& base) : path_(base + "/" + kPrefix + std::to_string(::getpid()) + "-XXXXXX") {
  remove_leftovers(base, kPrefix);
  if (::mkdtemp(path_.data()) == nullptr) {
    throw Error(std::string("no temporary folder could be made (") + std::strerror(errno) + ")", base,
                "set TMPDIR, or -o, to a folder that can be written", ExitCode::environment);
  }
  unfinished_.emplace(path_);
  lock_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ >= 0) lock_unfinished(lock_);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  if (lock_ >= 0) ::close(lock_);
}

}  // namespace mptune
