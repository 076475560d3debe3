#include "profiler/base/temporary_folder.h"

#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "profiler/base/error.h"

namespace mptune {
namespace {

std::string standard_folder() {
  const char* named = std::getenv("TMPDIR");
  return named == nullptr || *named == 0 ? "/tmp" : named;
}

}  // namespace

TemporaryFolder::TemporaryFolder() : TemporaryFolder(standard_folder()) {}

TemporaryFolder::TemporaryFolder(const std::string& base) : path_(base + "/mptune-XXXXXX") {
  if (::mkdtemp(path_.data()) == nullptr) {
    throw Error(std::string("no temporary folder could be made (") + std::strerror(errno) + ")", base,
                "set TMPDIR, or -o, to a folder that can be written", ExitCode::environment);
  }
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace mptune
