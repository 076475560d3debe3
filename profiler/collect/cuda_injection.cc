#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>

#include "mptune/profiler/collect/cupti_api.h"
#include "mptune/profiler/collect/cupti_collector.h"
#include "mptune/profiler/store/store.h"
#include "mptune/profiler/trace/error.h"

namespace mptune {
namespace {

constexpr const char* kPathVariable = "MPTUNE_RECORD_PATH";

// One write, so that the lines of several processes do not mix.
void say(const std::string& text) {
  const std::string line = "mptune: " + text + "\n";
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) return;
}

// The program being recorded goes on whatever happens here.
template <typename Work>
void guarded(Work work) noexcept {
  try {
    try {
      work();
    } catch (const Error& error) {
      say(std::string("not recorded: ") + error.what() + ": " + error.where() + "; " + error.remedy());
    } catch (const std::exception& error) {
      say(std::string("not recorded: ") + error.what());
    }
  } catch (...) {
    // Not even the line could be made.
    return;
  }
}

CuptiCollector* collector = nullptr;  // lives until the process ends: threads may still call CUPTI while it does
pid_t recorded_process = 0;

void finish() {
  // A child made by fork() inherits this handler, but not the recording.
  if (getpid() != recorded_process) return;
  guarded([] {
    const std::string process = std::to_string(getpid());
    Recording recording{.trace = collector->stop()};
    if (recording.trace->events.empty()) return say("process " + process + " gave no work to a GPU: no recording of it");
    write_recording(recording, std::string(std::getenv(kPathVariable)) + "." + process + ".sqlite", true);
  });
}

void begin() {
  if (std::getenv(kPathVariable) == nullptr)
    throw Error("no place for the recording", kPathVariable, "start the program with mptune profile -- COMMAND", ExitCode::usage);
  auto starting = std::make_unique<CuptiCollector>(std::vector<TraceDevice>{});
  starting->start();
  collector = starting.release();
  recorded_process = getpid();
  std::atexit(finish);
}

// What CUPTI's function of this name says; 0 where there is no CUPTI.
template <typename Argument>
int forward_to_cupti(const char* name, Argument argument) noexcept {
  int result = 0;
  guarded([&] {
    if (const auto forward = reinterpret_cast<int (*)(Argument)>(cupti_symbol(name))) result = forward(argument);
  });
  return result;
}

}  // namespace
}  // namespace mptune

extern "C" {

/// Called by the CUDA driver as it starts, where CUDA_INJECTION64_PATH names this library. Always 1: a refusal would fail the program.
int InitializeInjection() {
  static std::atomic_flag called;
  if (!called.test_and_set()) mptune::guarded(mptune::begin);
  return 1;
}

/// Called by each module's NVTX at its first call, where NVTX_INJECTION64_PATH names this library. Returns 0 where its calls cannot be
/// recorded: NVTX then turns them off.
int InitializeInjectionNvtx2(const void* (*get_export_table)(std::uint32_t)) {
  return mptune::forward_to_cupti("InitializeInjectionNvtx2", get_export_table);
}

/// The same of NVTX 2, which older programs link.
int InitializeInjectionNvtx(const void* (*get_export_table)(std::uint32_t)) {
  return mptune::forward_to_cupti("InitializeInjectionNvtx", get_export_table);
}

/// The same for NVTX's extensions: payloads that have a schema.
int InitializeInjectionNvtxExtension(void* extension) {
  return mptune::forward_to_cupti("InitializeInjectionNvtxExtension", extension);
}
}
