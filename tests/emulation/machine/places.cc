#include "tests/emulation/machine/places.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "tests/emulation/machine/machine.h"

namespace emulation {

namespace {

constexpr int kFrames = 3;

std::string_view file_of(const Dl_info& found) {
  const std::string_view path = found.dli_fname == nullptr ? "" : found.dli_fname;
  return path.substr(path.rfind('/') + 1);
}

bool is_ours(const Dl_info& found) {
  const std::string_view file = file_of(found);
  return file == "libcuda.so.1" || file == "libcudart.so.13";
}

/// The frames that called the emulated libraries.
std::string place_of_call() {
  std::array<void*, 16> frames{};
  const int count = backtrace(frames.data(), static_cast<int>(frames.size()));
  std::string place;
  int kept = 0;
  for (int i = 0; i < count && kept < kFrames; ++i) {
    Dl_info found{};
    if (dladdr(frames[static_cast<std::size_t>(i)], &found) == 0 || is_ours(found)) continue;
    char offset[32];
    std::snprintf(offset, sizeof offset, "+%#jx",
                  static_cast<std::uintmax_t>(reinterpret_cast<std::uintptr_t>(frames[static_cast<std::size_t>(i)]) -
                                              reinterpret_cast<std::uintptr_t>(found.dli_fbase)));
    place += " " + std::string(file_of(found)) + offset;
    ++kept;
  }
  return place;
}

void list(const std::string& place) {
  static std::mutex& mutex = *new std::mutex;
  static std::set<std::string>& listed = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  if (!listed.insert(place).second) return;
  static const int file = open(setting_text("SITES", "").c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  const std::string line = place + "\n";
  if (write(file, line.data(), line.size()) < 0) std::perror("EMULATED_SITES");
}

}  // namespace

bool is_left_out(const char* kind) {
  static const bool lists = !setting_text("SITES", "").empty();
  static const std::string& dropped = *new std::string(setting_text("DROP", ""));
  if (!lists && dropped.empty()) return false;
  const std::string place = std::string(kind) + ":" + place_of_call();
  if (lists) list(place);
  return place == dropped;
}

}  // namespace emulation
