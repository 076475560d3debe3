#include "profiler/device/gpu_library.h"

#include <dlfcn.h>
#include <torch/version.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <optional>

#include "profiler/base/error.h"
#include "profiler/device/list/gpu_driver.h"

namespace mptune::profiler {

namespace {

std::atomic<const GpuLibrary*> opened = nullptr;

constexpr const char* kFile = "libmptune_cuda.so";

std::filesystem::path find_library(const std::string& device) {
  if (const char* asked = std::getenv("MPTUNE_CUDA_LIBRARY"); asked != nullptr && *asked != '\0') return asked;
  std::error_code error;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (const auto& place : {folder, folder / "../libexec/mptune", std::filesystem::path(MPTUNE_LIBEXEC)})
    if (auto file = place / kFile; !place.empty() && std::filesystem::exists(file, error)) return file;
  throw Error(std::string(kFile) + " was not found", device,
              "build with CUDA's headers and LibTorch " MPTUNE_CUDA_TORCH " (-DMPTUNE_CUDA=ON), install again, or set MPTUNE_CUDA_LIBRARY",
              ExitCode::environment);
}

/// The driver reads this when it starts. By default it makes 8 channels, and streams of one GPU wait for each other.
void ask_for_channels() {
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0);
}

const GpuLibrary& open_library(const std::string& device) {
  if (const GpuDriver& driver = gpu_driver(); !driver.problem.empty())
    throw Error(driver.problem, device, "install the NVIDIA driver, or name CPU devices: --devices cpu:0,cpu:1", ExitCode::environment);
  const std::string file = find_library(device).string();
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const std::string message = dlerror();
    throw Error("CUDA devices can't be loaded: " + message, device, missing_library_remedy(message), ExitCode::environment);
  }
  const auto entry = reinterpret_cast<decltype(&mptune_cuda_entry)>(dlsym(library, "mptune_cuda_entry"));
  const GpuLibrary* table = entry != nullptr ? entry(kGpuLibraryBuild) : nullptr;
  if (table == nullptr)
    throw Error("the library of CUDA devices is of another build", file, "install mptune again, or unset MPTUNE_CUDA_LIBRARY",
                ExitCode::environment);
  return *table;
}

}  // namespace

std::string missing_library_remedy(const std::string& message) {
  const std::string name = message.substr(0, message.find(':'));
  if (name.find(".so") == std::string::npos || name.find(kFile) != std::string::npos) return "install mptune again";
  return "LibTorch needs " + name +
         ": install torch " TORCH_VERSION " with the packages it depends on, or name the folder of that library in LD_LIBRARY_PATH";
}

const GpuLibrary& gpu_library(const std::string& device) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (opened == nullptr) opened = &open_library(device);
  return *opened;
}

const GpuLibrary* opened_gpu_library() {
  return opened;
}

}  // namespace mptune::profiler

namespace mptune {

void prepare_gpus() {
  profiler::ask_for_channels();
  if (profiler::gpu_driver().gpus > 0) (void)profiler::gpu_library("cuda:0");
}

}  // namespace mptune
