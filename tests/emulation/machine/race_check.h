#pragma once

/// Finds uses of memory that no wait orders, by vector clocks: whatever the times were. EMULATED_RACES=0 turns it off.
/// Strided tensors count with their whole extent. All threads of the host count as one.

#include <cstdint>
#include <string>
#include <vector>

#include "tests/emulation/machine/machine.h"

namespace emulation {

/// How far each stream's work is known to be done, by the number of the stream. Streams count their tasks from 1.
class VectorClock {
 public:
  [[nodiscard]] std::uint64_t at(std::size_t stream) const { return stream < passed_.size() ? passed_[stream] : 0; }
  void set(std::size_t stream, std::uint64_t task);
  void join(const VectorClock& other);

 private:
  std::vector<std::uint64_t> passed_;
};

/// A task that uses memory.
struct User {
  std::size_t stream = 0;
  std::uint64_t task = 0;
  const char* name = "";
  const Stream* on = nullptr;
};

/// Uses by a task which everything in `before` precedes. Reports those that race with earlier ones.
void check_uses(const User& user, const VectorClock& before, const std::vector<Range>& uses);

/// Uses by the host.
void check_host_uses(const char* name, const VectorClock& before, const std::vector<Range>& uses);

/// Memory that is no longer anybody's.
void forget_uses(const void* begin, std::size_t bytes);

}  // namespace emulation
