#pragma once

/// The GPUs of the settings, contexts, errors that stay, and which GPU reaches which.

#include <optional>
#include <string>

#include "tests/emulation/machine/machine.h"

namespace emulation {

/// A range of a GPU's multiprocessors.
struct SmRange {
  int first = 0;
  int count = 0;
};

[[nodiscard]] inline bool is_gpu(int gpu) {
  return gpu >= 0 && gpu < gpu_count();
}

/// A CUcontext: the primary one of a GPU, or one of a part.
struct Context {
  int gpu = 0;
  std::uint32_t id = 0;
  SmRange sms;
};

/// Which GPU of the machine the process's GPU is (CUDA_VISIBLE_DEVICES). Requires, as all functions here: 0 <= gpu < gpu_count().
[[nodiscard]] EMULATION_EXPORT int machine_gpu(int gpu);

[[nodiscard]] EMULATION_EXPORT Context& primary_context(int gpu);
[[nodiscard]] EMULATION_EXPORT bool is_primary_active(int gpu);
EMULATION_EXPORT void activate_primary(int gpu);
/// The one that this thread works in; null: no call needed one yet.
[[nodiscard]] EMULATION_EXPORT Context* current_context();
EMULATION_EXPORT void set_current_context(Context* context);

[[nodiscard]] EMULATION_EXPORT int multiprocessors();
[[nodiscard]] EMULATION_EXPORT std::uint64_t memory_bytes();
/// A GPU of another speed is another model: "Emulated GPU at speed 0.5".
[[nodiscard]] EMULATION_EXPORT std::string gpu_name(int gpu);
[[nodiscard]] EMULATION_EXPORT std::string bus_name(int gpu);

/// The error of a GPU that all calls get from now on; 0: none.
[[nodiscard]] EMULATION_EXPORT Status sticky_error(int gpu);
void set_sticky_error(int gpu, Status status);

[[nodiscard]] EMULATION_EXPORT bool can_reach(int gpu, int other);
EMULATION_EXPORT Status enable_peer(int gpu, int other);
EMULATION_EXPORT Status disable_peer(int gpu, int other);
[[nodiscard]] bool is_peer_enabled(int gpu, int other);

/// What cuInit does: opens the library of CUDA_INJECTION64_PATH, once. kNoDevice where there is no GPU.
EMULATION_EXPORT Status initialise_driver();

}  // namespace emulation
