#include <cuda.h>
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "profiler/base/error.h"
#include "profiler/trace/collect/cupti_api.h"
#include "profiler/trace/collect/cupti_collector.h"
#include "profiler/trace/store/store.h"

namespace mptune::profiler {
namespace {

constexpr const char* kPathVariable = "MPTUNE_RECORD_PATH";

std::string path_of(const std::string& ending) {
  const char* path = std::getenv(kPathVariable);
  return path == nullptr ? "" : std::string(path) + "." + std::to_string(getpid()) + ending;
}

// Writes the error for mptune, which prints it once for all processes. If that fails, writes it to standard error, in one write() so that
// lines of several processes do not mix.
void say(const Error& error) {
  std::ofstream note(path_of(".error"));
  note << error.problem() << '\n' << error.where() << '\n' << error.remedy() << '\n' << static_cast<int>(error.code()) << std::endl;
  if (note) return;
  const std::string line = std::string("mptune: not recorded: ") + error.what() + "\n";
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) return;
}

// Catches everything: the recorded program must not fail because of its recorder.
template <typename Work>
void guarded(Work work) noexcept {
  try {
    try {
      work();
    } catch (const Error& error) {
      say(error);
    } catch (const std::exception& error) {
      say(Error(error.what(), "libmptune_injection.so", "this is a bug in mptune: report it", ExitCode::internal));
    }
  } catch (...) {
    // No memory for the message.
    return;
  }
}

CuptiCollector* collector = nullptr;  // never deleted: threads may call CUPTI until the process ends
pid_t recorded_process = 0;
std::string recording_path;  // copied: the program may change its environment

// cuda.h defines function names as macros for their newest versions. This gives the name after expansion.
#define MPTUNE_TEXT_OF(name) #name
#define MPTUNE_DRIVER(name) reinterpret_cast<decltype(&name)>(dlsym(driver, MPTUNE_TEXT_OF(name)))  // NOLINT(bugprone-macro-parentheses)

// A program may end while its GPUs still work; unfinished work would have no times.
void wait_for_gpus() {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (driver == nullptr) return;
  const auto count = MPTUNE_DRIVER(cuDeviceGetCount);
  const auto state = MPTUNE_DRIVER(cuDevicePrimaryCtxGetState);
  const auto retain = MPTUNE_DRIVER(cuDevicePrimaryCtxRetain);
  const auto push = MPTUNE_DRIVER(cuCtxPushCurrent);
  const auto synchronize = MPTUNE_DRIVER(cuCtxSynchronize);
  int gpus = 0;
  if (!count || !state || !retain || !push || !synchronize || count(&gpus) != CUDA_SUCCESS) return;
  for (CUdevice gpu = 0; gpu < gpus; ++gpu) {
    unsigned flags = 0;
    int active = 0;
    CUcontext context = nullptr;
    if (state(gpu, &flags, &active) != CUDA_SUCCESS || active == 0) continue;
    if (retain(&context, gpu) == CUDA_SUCCESS && push(context) == CUDA_SUCCESS) (void)synchronize();
  }
}

// If another process died, the GPU may wait for it forever.
void wait_for_gpus_at_most(std::chrono::seconds limit) {
  std::promise<void> done;
  const auto ended = done.get_future();
  std::thread([done = std::move(done)]() mutable {
    wait_for_gpus();
    done.set_value();
  }).detach();
  (void)ended.wait_for(limit);
}

void finish() {
  // A child made by fork() inherits this handler, but not the recording.
  if (getpid() != recorded_process) return;
  guarded([] {
    wait_for_gpus_at_most(std::chrono::seconds(5));
    const Recording recording{.trace = collector->stop()};
    if (!recording.trace->events.empty()) write_recording(recording, recording_path, true);
  });
}

void begin() {
  if (std::getenv(kPathVariable) == nullptr)
    throw Error("no path for the recording", kPathVariable, "start the program with mptune profile -- COMMAND", ExitCode::usage);
  auto starting = std::make_unique<CuptiCollector>(std::vector<TraceDevice>{}, nullptr, CuptiCollector::Attach::before_cuda);
  starting->start();
  collector = starting.release();
  recorded_process = getpid();
  recording_path = path_of(".sqlite");
  std::atexit(finish);
}

// Calls CUPTI's function of this name and returns its result; 0 without CUPTI.
template <typename Argument>
int forward_to_cupti(const char* name, Argument argument) noexcept {
  int result = 0;
  guarded([&] {
    if (const auto forward = reinterpret_cast<int (*)(Argument)>(cupti_symbol(name))) result = forward(argument);
  });
  return result;
}

}  // namespace
}  // namespace mptune::profiler

// The driver and NVTX look for these names. NOLINTBEGIN(readability-identifier-naming)
extern "C" {

/// Called by the CUDA driver when it starts, if CUDA_INJECTION64_PATH names this library. Always returns 1: 0 would make the program fail.
int InitializeInjection() {
  static std::atomic_flag called;
  if (!called.test_and_set()) mptune::profiler::guarded(mptune::profiler::begin);
  return 1;
}

/// Called by each module's NVTX at its first call, if NVTX_INJECTION64_PATH names this library. Returns 0 if its calls cannot be recorded;
/// NVTX then turns them off.
int InitializeInjectionNvtx2(const void* (*get_export_table)(std::uint32_t)) {
  return mptune::profiler::forward_to_cupti("InitializeInjectionNvtx2", get_export_table);
}

/// Does the same for NVTX 2, which older programs use.
int InitializeInjectionNvtx(const void* (*get_export_table)(std::uint32_t)) {
  return mptune::profiler::forward_to_cupti("InitializeInjectionNvtx", get_export_table);
}

/// Does the same for NVTX's extension: payloads with a schema.
int InitializeInjectionNvtxExtension(void* extension) {
  return mptune::profiler::forward_to_cupti("InitializeInjectionNvtxExtension", extension);
}
}
// NOLINTEND(readability-identifier-naming)
