#include "profiler/base/whole_file.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "profiler/base/error.h"
#include "profiler/base/index.h"

namespace mptune {

std::string read_whole_file(const std::string& path, std::int64_t largest_bytes, const std::string& what) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) throw Error(std::string("can't open: ") + std::strerror(errno), path, "name an existing " + what);
  if (!S_ISREG(status.st_mode)) throw Error("not a regular file", path, "name a " + what);
  if (status.st_size > largest_bytes) throw Error("larger than " + std::to_string(largest_bytes >> 20) + " MiB", path, "name a " + what);
  std::ifstream stream(path, std::ios::binary);
  std::string text(as_index(status.st_size), '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!stream) throw Error("can't be read", path, "check its permissions and the disk", ExitCode::environment);
  return text;
}

}  // namespace mptune
