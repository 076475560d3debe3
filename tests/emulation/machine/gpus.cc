#include "tests/emulation/machine/gpus.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <sstream>
#include <vector>

#include "tests/emulation/machine/shared_machine.h"
#include "tests/emulation/machine/speed.h"
#include "tests/emulation/machine/status.h"
#include "tests/emulation/machine/stream.h"

namespace emulation {

namespace {

struct Gpu {
  Context context;
  std::atomic<bool> active = false;
  std::atomic<Status> error = kSuccess;
  std::atomic<bool> peers[kMostGpus] = {};
};

int count_from_settings() {
  const double count = setting("GPUS", 4);
  if (count >= 0 && count <= kMostGpus) return static_cast<int>(count);
  std::fprintf(stderr, "EMULATED_GPUS must be 0 to %d\n", kMostGpus);
  std::_Exit(2);
}

/// As the driver reads CUDA_VISIBLE_DEVICES: indices up to the first that is none.
std::vector<int> visible_gpus() {
  const int count = count_from_settings();
  std::vector<int> visible;
  const char* chosen = std::getenv("CUDA_VISIBLE_DEVICES");
  if (chosen == nullptr) {
    for (int gpu = 0; gpu < count; ++gpu) visible.push_back(gpu);
    return visible;
  }
  std::istringstream indices(chosen);
  for (int gpu = 0; indices >> gpu && gpu >= 0 && gpu < count;) {
    visible.push_back(gpu);
    if (indices.get() != ',') break;
  }
  return visible;
}

const std::vector<int>& gpus_of_process() {
  static const auto& visible = *new std::vector<int>(visible_gpus());
  return visible;
}

Gpu* make_gpus() {
  Gpu* all = new Gpu[kMostGpus];
  for (int gpu = 0; gpu < kMostGpus; ++gpu) all[gpu].context = {gpu, static_cast<std::uint32_t>(gpu + 1), {0, multiprocessors()}};
  return all;
}

Gpu& gpu_of(int gpu) {
  static Gpu* const all = make_gpus();
  return all[gpu];
}

thread_local int gpu_of_thread = 0;
thread_local Context* context_of_thread = nullptr;

/// The library is the profiler's: it stays open.
void open_injection() {
  const char* path = std::getenv("CUDA_INJECTION64_PATH");
  if (path == nullptr || *path == '\0') return;
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "CUDA_INJECTION64_PATH: %s\n", dlerror());
    return;
  }
  if (auto* initialize = reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"))) initialize();
}

}  // namespace

int gpu_count() {
  return static_cast<int>(gpus_of_process().size());
}

int machine_gpu(int gpu) {
  return gpus_of_process()[static_cast<std::size_t>(gpu)];
}

int current_gpu() {
  return gpu_of_thread;
}

Status set_current_gpu(int gpu) {
  if (gpu < 0 || gpu >= gpu_count()) return kInvalidDevice;
  activate_primary(gpu);
  gpu_of_thread = gpu;
  context_of_thread = &primary_context(gpu);
  return kSuccess;
}

Context& primary_context(int gpu) {
  return gpu_of(gpu).context;
}
bool is_primary_active(int gpu) {
  return gpu_of(gpu).active;
}
void activate_primary(int gpu) {
  gpu_of(gpu).active = true;
}

Context* current_context() {
  return context_of_thread;
}

void set_current_context(Context* context) {
  context_of_thread = context;
  if (context != nullptr) gpu_of_thread = context->gpu;
}

int multiprocessors() {
  static const int count = std::clamp(static_cast<int>(setting("SMS", 132)), 1, kMostMultiprocessors);
  return count;
}

std::uint64_t memory_bytes() {
  static const auto bytes = static_cast<std::uint64_t>(setting("MEMORY", 4.0 * (1U << 30U)));
  return bytes;
}

std::string gpu_name(int gpu) {
  static const std::string& name = *new std::string(setting_text("NAME", "Emulated GPU"));
  const double speed = speed_of(gpu);
  if (speed == 1) return name;
  char text[32];
  std::snprintf(text, sizeof text, " at speed %g", speed);
  return name + text;
}

std::string bus_name(int gpu) {
  char text[16];
  std::snprintf(text, sizeof text, "0000:%02x:00.0", 0x10 + machine_gpu(gpu));
  return text;
}

Status sticky_error(int gpu) {
  return gpu_of(gpu).error;
}

void set_sticky_error(int gpu, Status status) {
  Status none = kSuccess;
  gpu_of(gpu).error.compare_exchange_strong(none, status);
}

bool can_reach(int gpu, int other) {
  static const bool peers = setting("PEERS", 1) != 0;
  return peers && gpu != other;
}

Status enable_peer(int gpu, int other) {
  if (!can_reach(gpu, other)) return gpu == other ? kInvalidDevice : kPeerAccessUnsupported;
  return gpu_of(gpu).peers[other].exchange(true) ? kPeerAccessAlreadyEnabled : kSuccess;
}

Status disable_peer(int gpu, int other) {
  return gpu_of(gpu).peers[other].exchange(false) ? kSuccess : kPeerAccessNotEnabled;
}

bool is_peer_enabled(int gpu, int other) {
  return gpu == other || gpu_of(gpu).peers[other];
}

Status initialise_driver() {
  if (gpu_count() == 0) return kNoDevice;
  static std::once_flag& once = *new std::once_flag;
  static thread_local bool initialising = false;  // the injection calls CUDA
  if (initialising) return kSuccess;
  initialising = true;
  std::call_once(once, [] {
    end_work_with_process();
    open_injection();
  });
  initialising = false;
  return kSuccess;
}

}  // namespace emulation
