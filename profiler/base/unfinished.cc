#include "profiler/base/unfinished.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace fs = std::filesystem;

namespace mptune {
namespace {

struct Registry {
  std::mutex mutex;
  std::multiset<std::string> paths;
};

Registry& registry() {
  static auto* all = new Registry;  // lives until the process has ended, whatever thread ends it
  return *all;
}

/// Returns the process that made an entry of this name; 0 if the name is not of that form.
pid_t maker_of(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return 0;
  name.remove_prefix(prefix.size());
  pid_t process = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), process);
  return error == std::errc() && end != name.data() + name.size() && *end == '-' && process > 0 ? process : 0;
}

bool is_locked(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) return true;  // not ours, or gone
  const bool locked = ::flock(descriptor, LOCK_EX | LOCK_NB) != 0;
  ::close(descriptor);
  return locked;
}

}  // namespace

Unfinished::Unfinished(std::string path) : path_(std::move(path)) {
  const std::lock_guard lock(registry().mutex);
  registry().paths.insert(path_);
}

Unfinished::~Unfinished() {
  const std::lock_guard lock(registry().mutex);
  registry().paths.erase(registry().paths.find(path_));
}

void remove_unfinished() {
  const std::lock_guard lock(registry().mutex);
  std::error_code ignored;
  for (const std::string& path : registry().paths) fs::remove_all(path, ignored);
}

void remove_leftovers(const std::string& folder, const std::string& prefix) {
  std::error_code failed;
  std::vector<fs::path> left;
  for (fs::directory_iterator entry(folder.empty() ? "." : folder, failed), end; !failed && entry != end; entry.increment(failed)) {
    const pid_t maker = maker_of(entry->path().filename().string(), prefix);
    const bool ended = maker != 0 && ::kill(maker, 0) != 0 && errno == ESRCH;
    if (ended && !is_locked(entry->path())) left.push_back(entry->path());
  }
  for (const fs::path& path : left) fs::remove_all(path, failed);
}

void lock_unfinished(int descriptor) {
  (void)::flock(descriptor, LOCK_EX | LOCK_NB);  // where the file system can't, the process number decides
}

}  // namespace mptune
