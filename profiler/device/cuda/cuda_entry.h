#pragma once

#include <torch/version.h>

#include <array>
#include <memory>
#include <string>

#include "profiler/device/copier.h"
#include "profiler/device/device.h"
#include "profiler/device/gpu_communicator.h"

namespace mptune::profiler {

/// Identifies the build; program and library must agree.
inline constexpr const char* kGpuLibraryBuild = MPTUNE_VERSION "/3/" TORCH_VERSION;

/// A kernel and the arguments that it gets.
struct GpuLaunch {
  const char* code = nullptr;    ///< CUDA code. It lives as long as the process; other code has another address
  const char* kernel = nullptr;  ///< the name of an extern "C" function of the code
  int gpu = 0;
  std::array<unsigned, 2> blocks{1, 1};   ///< x and y
  std::array<unsigned, 2> threads{1, 1};  ///< of a block, x and y
  void** arguments = nullptr;
};

/// Functions that libmptune_cuda.so offers to the program that opens it. Both are built from the same sources.
struct GpuLibrary {
  std::shared_ptr<Device> (*make_device)(const DeviceSpec& spec) = nullptr;
  std::unique_ptr<Copier> (*make_copier)(const std::shared_ptr<Device>& source, const std::shared_ptr<Device>& destination,
                                         bool staged) = nullptr;
  /// True if `gpu` can access the memory of `other` (peer access).
  bool (*reaches)(int gpu, int other) = nullptr;
  /// Launches a kernel on the calling thread's current stream of that GPU. The code is compiled at its first launch, which takes some
  /// tenths of a second. Returns why the kernel can't be made, "" if it was launched. Throws c10::Error if a launch fails. Thread-safe.
  std::string (*launch)(const GpuLaunch& launch) = nullptr;
  /// Returns the connector of GPUs of several processes. It lives as long as the library.
  const GpuConnector& (*connector)() = nullptr;
};

}  // namespace mptune::profiler

/// The library's only entry point. `build` is the caller's kGpuLibraryBuild; returns null if it differs from the library's.
extern "C" const mptune::profiler::GpuLibrary* mptune_cuda_entry(const char* build);
