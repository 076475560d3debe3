#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tests/emulation/nvrtc/kernel_image.h"
#include "tests/emulation/runtime/kernels.h"
#include "tests/emulation/runtime/runtime_call.h"

using namespace emulation;

namespace {

/// A cudaLibrary_t. Never unloaded: kernels may run until the process ends.
struct Library {
  const KernelImage* image = nullptr;
  std::mutex mutex;
  std::map<std::string, Kernel*> kernels;
};

/// Opens the shared object that the emulated NVRTC made; null if it is none.
const KernelImage* open_image(const void* code) {
  const std::size_t bytes = image_bytes(code);
  if (bytes == 0) return nullptr;
  const int file = memfd_create("emulated-kernels", MFD_CLOEXEC);
  if (file < 0) return nullptr;
  const bool written = write(file, code, bytes) == static_cast<ssize_t>(bytes);
  void* opened = written ? dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  // The file stays open: dlopen() would take a later one with its number for the same.
  if (opened == nullptr) return nullptr;
  const auto* image = static_cast<const KernelImage*>(dlsym(opened, kImageSymbol));
  return image != nullptr && image->version == kImageVersion ? image : nullptr;
}

/// Arguments are copied at the launch, as the program's are gone when the kernel runs.
struct Arguments {
  Arguments(const KernelEntry& entry, void** given) : values(entry.parameters) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto* bytes = static_cast<const char*>(given[i]);
      values[i].assign(bytes, bytes + entry.parameter_bytes[i]);
      addresses.push_back(values[i].data());
    }
  }
  std::vector<std::vector<char>> values;
  std::vector<void*> addresses;
};

PrepareKernel prepare_of(const KernelEntry& entry) {
  return [&entry](const Launch& launch, Work& work) {
    auto arguments = std::make_shared<Arguments>(entry, launch.arguments);
    work.compute = [&entry, arguments, launch] { entry.run(arguments->addresses.data(), launch.blocks, launch.threads); };
  };
}

const KernelEntry* find(const KernelImage& image, const char* name) {
  for (std::uint32_t i = 0; i < image.count; ++i)
    if (std::strcmp(image.kernels[i].name, name) == 0) return &image.kernels[i];
  return nullptr;
}

}  // namespace

EMULATED_RUNTIME_FUNCTION cudaLibraryLoadData(cudaLibrary_t* made, const void* code, cudaJitOption*, void**, unsigned, cudaLibraryOption*,
                                              void**, unsigned) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaLibraryLoadData_v12060);
  const KernelImage* image = open_image(code);
  if (image == nullptr) return call.end(kInvalidImage);
  auto* library = new Library;
  library->image = image;
  *made = reinterpret_cast<cudaLibrary_t>(library);
  return call.end(kSuccess);
}

EMULATED_RUNTIME_FUNCTION cudaLibraryGetKernel(cudaKernel_t* made, cudaLibrary_t handle, const char* name) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaLibraryGetKernel_v12060);
  auto* library = reinterpret_cast<Library*>(handle);
  const KernelEntry* entry = find(*library->image, name);
  if (entry == nullptr) return call.end(kSymbolNotFound);
  const std::lock_guard lock(library->mutex);
  Kernel*& kernel = library->kernels[name];
  if (kernel == nullptr) kernel = add_kernel(name, prepare_of(*entry));
  *made = reinterpret_cast<cudaKernel_t>(kernel);
  return call.end(kSuccess);
}

EMULATED_RUNTIME_FUNCTION cudaLibraryUnload(cudaLibrary_t) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaLibraryUnload_v12060);
  return call.end(kSuccess);
}
