#include "tests/emulation/machine/occupation.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <ctime>
#include <tuple>

#include "tests/emulation/machine/shared_machine.h"

namespace emulation {

namespace {

constexpr timespec kPatience{0, 20'000'000};  // then a process may have died

/// False: nothing changed for a while.
bool wait_for_change(std::uint32_t& word, std::uint32_t seen) {
  return syscall(SYS_futex, &word, FUTEX_WAIT, seen, &kPatience, nullptr, 0) == 0 || errno != ETIMEDOUT;
}

void wake_all(std::uint32_t& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool overlap(const SharedRequest& a, const SharedRequest& b) {
  return a.process != 0 && b.process != 0 && a.first < b.first + b.count && b.first < a.first + a.count;
}

bool must_wait(const SharedGpu& gpu, const SharedRequest& request) {
  return std::any_of(std::begin(gpu.requests), std::end(gpu.requests), [&](const SharedRequest& other) {
    if (&other == &request || !overlap(other, request)) return false;
    return other.granted || std::tie(other.priority, other.ticket) < std::tie(request.priority, request.ticket);
  });
}

int free_place(const SharedGpu& gpu) {
  const auto place =
      std::find_if(std::begin(gpu.requests), std::end(gpu.requests), [](const auto& request) { return request.process == 0; });
  return place == std::end(gpu.requests) ? -1 : static_cast<int>(place - std::begin(gpu.requests));
}

}  // namespace

Occupation::Occupation(const Units& units, int priority) : units_(units) {
  if (units.count == 0) return;
  for (bool changed = true;;) {
    std::uint32_t seen = 0;
    std::uint32_t* changes = nullptr;
    {
      const SharedLock lock;
      if (!changed) lock.forget_dead_processes();
      SharedGpu& gpu = lock->gpus[units.gpu];
      if (request_ < 0) {
        request_ = free_place(gpu);
        if (request_ >= 0) gpu.requests[request_] = {getpid(), units.first, units.count, priority, ++gpu.tickets, false};
      }
      if (request_ >= 0 && !must_wait(gpu, gpu.requests[request_])) {
        gpu.requests[request_].granted = true;
        free_at_ = *std::max_element(gpu.free_at + units.first, gpu.free_at + units.first + units.count);
        return;
      }
      changes = &gpu.changes;
      seen = *changes;
    }
    changed = wait_for_change(*changes, seen);
  }
}

Occupation::~Occupation() {
  release(0);
}

void Occupation::release(Nanoseconds end) {
  if (request_ < 0) return;
  std::uint32_t* changes = nullptr;
  {
    const SharedLock lock;
    SharedGpu& gpu = lock->gpus[units_.gpu];
    gpu.requests[request_] = {};
    for (int unit = units_.first; unit < units_.first + units_.count; ++unit) gpu.free_at[unit] = std::max(gpu.free_at[unit], end);
    changes = &gpu.changes;
    ++*changes;
  }
  request_ = -1;
  wake_all(*changes);
}

}  // namespace emulation
