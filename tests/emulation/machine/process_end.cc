/// What happens when a process ends: it leaves the machine, and where races were found its exit code says so.

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "tests/emulation/machine/machine.h"
#include "tests/emulation/machine/shared_machine.h"

namespace emulation {

namespace {

constexpr int kRaces = 66;

const pid_t loaded_in = getpid();

int code_after(int status) {
  if (getpid() != loaded_in) return status;  // a child by fork()
  leave_shared_machine();
  return status == 0 && race_count() > 0 ? kRaces : status;
}

void end(int status, void*) {
  const int code = code_after(status);
  if (code == status) return;
  std::fflush(nullptr);
  _exit(code);
}

/// Registered first, it runs last.
[[gnu::constructor]] void register_end() {
  on_exit(end, nullptr);
}

}  // namespace

}  // namespace emulation

/// Replaces the C library's, for programs that end without exit().
extern "C" EMULATION_EXPORT void _exit(int status) {
  const int code = emulation::code_after(status);
  for (;;) syscall(SYS_exit_group, code);
}
