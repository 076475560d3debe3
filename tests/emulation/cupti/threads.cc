#include "tests/emulation/cupti/threads.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace emulation::cupti {

namespace {
std::atomic<bool> system_numbers = false;
}  // namespace

void use_system_thread_numbers(bool yes) {
  system_numbers = yes;
}

bool uses_system_thread_numbers() {
  return system_numbers;
}

std::uint32_t thread_number() {
  static thread_local const auto number = static_cast<std::uint32_t>(syscall(SYS_gettid));
  return system_numbers ? number : static_cast<std::uint32_t>(pthread_self());
}

}  // namespace emulation::cupti
