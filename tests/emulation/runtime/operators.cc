#include "tests/emulation/runtime/operators.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/emulation/machine/machine.h"
#include "tests/emulation/machine/stream.h"

namespace emulation {

namespace {

/// LibTorch's libraries may have any path; the name is enough for one that is loaded.
bool has_torch() {
  void* library = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return false;
  dlclose(library);
  return true;
}

}  // namespace

void open_operators() {
  static std::atomic<bool> opened = false;
  if (opened.load(std::memory_order_relaxed) || !has_torch() || opened.exchange(true)) return;
  end_work_with_process();  // before LibTorch's destructors
  const std::string path = setting_text("OPERATORS", "");
  if (path.empty() || dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr) return;
  std::fprintf(stderr, "EMULATED_OPERATORS: %s\n", dlerror());
  if (setting("STRICT", 0) != 0) std::abort();
}

}  // namespace emulation
