#pragma once

/// Units of a GPU that a piece of work has for itself while it runs, among all processes of the machine.

#include "tests/emulation/machine/machine.h"

namespace emulation {

struct Units {
  int gpu = 0;  ///< of the machine
  int first = 0;
  int count = 0;  ///< 0: none
};

/// Waits until nobody has one of the units, in the order of arrival, those of higher priority (smaller) first.
class Occupation {
 public:
  Occupation(const Units& units, int priority);
  ~Occupation();
  Occupation(const Occupation&) = delete;
  Occupation& operator=(const Occupation&) = delete;
  /// When the last user of the units ended.
  [[nodiscard]] Nanoseconds free_at() const { return free_at_; }
  /// Whoever is next begins no earlier than at `end`.
  void release(Nanoseconds end);

 private:
  Units units_;
  int request_ = -1;
  Nanoseconds free_at_ = 0;
};

}  // namespace emulation
