#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <string>

/// What leave_out.py writes into sources of the product, at each place that it can leave out.
namespace mptune {

inline constexpr int kMostPlaces = 1000;

inline void note_reached(int place) {
  static std::array<std::atomic<bool>, kMostPlaces> noted{};
  static const char* const file = std::getenv("LEAVE_OUT_REACHED");
  if (file == nullptr || noted[static_cast<std::size_t>(place)].exchange(true)) return;
  const std::string line = std::to_string(place) + '\n';
  const int out = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  (void)!write(out, line.data(), line.size());
  (void)close(out);
}

/// True if the environment says that `place` is left out. Notes that it was reached.
inline bool left_out(int place) {
  static const int chosen = [] {
    const char* text = std::getenv("LEAVE_OUT");
    return text == nullptr ? -1 : std::atoi(text);
  }();
  note_reached(place);
  return place == chosen;
}

}  // namespace mptune
