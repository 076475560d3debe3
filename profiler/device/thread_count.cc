#include "profiler/device/thread_count.h"

#include <dlfcn.h>

namespace mptune::profiler {

namespace {

using PauseResources = int (*)(int kind);
constexpr int kSoftPause = 1;  // omp_pause_soft

/// OpenMP's omp_pause_resource_all in GNU's library, which ends threads of the caller only; null with any other library.
PauseResources gnu_pause_resources() {
  const bool llvm = dlsym(RTLD_DEFAULT, "__kmpc_global_thread_num") != nullptr;  // its pause would concern the whole process
  return llvm ? nullptr : reinterpret_cast<PauseResources>(dlsym(RTLD_DEFAULT, "omp_pause_resource_all"));
}

}  // namespace

void end_idle_parallel_threads() {
  static const PauseResources pause = gnu_pause_resources();
  if (pause != nullptr) pause(kSoftPause);
}

}  // namespace mptune::profiler
