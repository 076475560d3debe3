#include "profiler/device/cuda/cuda_kernels.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <utility>

#include "profiler/base/error.h"
#include "profiler/device/gpu_compiler.h"

// LibTorch's jiterator (CompileAndLaunchKernel) is not used: its results have the type of its inputs, so a mask of hashed integers would
// take a second kernel and tensors of indices, and its cache may not be used by several threads.

namespace mptune::profiler {
namespace {

/// Code in the form of one compute capability. Never unloaded: kernels may run until the process ends.
struct Program {
  std::string problem;  ///< why there is none, "" if there is one
  cudaLibrary_t library = nullptr;
  std::map<std::string, cudaKernel_t> kernels;
};

/// Returns LibTorch's own library that needs NVRTC: it finds NVRTC where LibTorch was installed, whatever its version.
std::string compiler_library() {
  Dl_info found{};
  const auto near = reinterpret_cast<const void*>(&c10::cuda::device_count);
  const bool known = dladdr(near, &found) != 0 && found.dli_fname != nullptr;
  return (std::filesystem::path(known ? found.dli_fname : "").parent_path() / "libcaffe2_nvrtc.so").string();
}

/// Returns what went wrong, "" if the runtime did what was asked.
std::string problem_of(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return {};
  (void)cudaGetLastError();
  return std::string(what) + " gave " + cudaGetErrorName(error);
}

Program make_program(const char* code, int capability) {
  Program program;
  try {
    const std::string machine_code = GpuCompiler(compiler_library()).compile(code, capability).machine_code;
    const cudaError_t loaded = cudaLibraryLoadData(&program.library, machine_code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
    program.problem = problem_of(loaded, "cudaLibraryLoadData");
  } catch (const Error& error) {
    program.problem = error.problem();
  }
  return program;
}

int capability_of(int gpu) {
  int major = 0, minor = 0;
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, gpu));
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, gpu));
  return 10 * major + minor;
}

/// Returns the kernel, or why there is none. It works on all GPUs of its compute capability and in their green contexts.
std::pair<cudaKernel_t, std::string> find_kernel(const GpuLaunch& launch) {
  static std::mutex mutex;
  static auto& programs = *new std::map<std::pair<const char*, int>, Program>;
  const std::pair key{launch.code, capability_of(launch.gpu)};
  const std::lock_guard lock(mutex);
  if (!programs.contains(key)) programs.emplace(key, make_program(key.first, key.second));
  Program& program = programs.at(key);
  if (!program.problem.empty()) return {nullptr, program.problem};
  cudaKernel_t& kernel = program.kernels[launch.kernel];
  if (kernel == nullptr)
    program.problem = problem_of(cudaLibraryGetKernel(&kernel, program.library, launch.kernel), "cudaLibraryGetKernel");
  return {kernel, program.problem};
}

}  // namespace

std::string launch_kernel(const GpuLaunch& launch) {
  const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(launch.gpu));
  const auto [kernel, problem] = find_kernel(launch);
  if (!problem.empty()) return problem;
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(guard.current_device().index());
  const dim3 blocks(launch.blocks[0], launch.blocks[1]), threads(launch.threads[0], launch.threads[1]);
  C10_CUDA_CHECK(cudaLaunchKernel(static_cast<const void*>(kernel), blocks, threads, launch.arguments, 0, stream));
  return {};
}

}  // namespace mptune::profiler
