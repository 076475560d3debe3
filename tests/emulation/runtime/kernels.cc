#include "tests/emulation/runtime/kernels.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "tests/emulation/machine/status.h"

namespace emulation {

namespace {

struct Kernels {
  std::shared_mutex mutex;
  std::unordered_set<const void*> handles;
  std::unordered_map<const void*, const char*> names;  ///< mangled, of host functions; LibTorch registers thousands
  std::unordered_map<const void*, Kernel*> of_function;
};

Kernels& kernels() {
  static Kernels& all = *new Kernels;
  return all;
}

std::string demangled(const char* name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = status == 0 && text != nullptr ? text : name;
  std::free(text);
  return result;
}

}  // namespace

Kernel* add_kernel(std::string_view name, PrepareKernel prepare) {
  auto* kernel = new Kernel{intern(name), std::move(prepare)};
  const std::unique_lock lock(kernels().mutex);
  kernels().handles.insert(kernel);
  return kernel;
}

void add_host_function(const void* function, const char* mangled_name) {
  const std::unique_lock lock(kernels().mutex);
  kernels().names.emplace(function, mangled_name);
}

Kernel* kernel_of(const void* function_or_handle) {
  const char* name = nullptr;
  {
    const std::shared_lock lock(kernels().mutex);
    if (kernels().handles.contains(function_or_handle)) return const_cast<Kernel*>(static_cast<const Kernel*>(function_or_handle));
    const auto made = kernels().of_function.find(function_or_handle);
    if (made != kernels().of_function.end()) return made->second;
    const auto found = kernels().names.find(function_or_handle);
    if (found == kernels().names.end()) return nullptr;
    name = found->second;
  }
  const std::string text = demangled(name);
  Kernel* kernel = add_kernel(text, known_kernel(text));
  const std::unique_lock lock(kernels().mutex);
  return kernels().of_function.emplace(function_or_handle, kernel).first->second;
}

Status launch(const void* function_or_handle, const Launch& launch, cudaStream_t handle) {
  Kernel* kernel = kernel_of(function_or_handle);
  if (kernel == nullptr) return kInvalidDeviceFunction;
  if (!kernel->prepare) {
    not_emulated(kernel->name);
    return kInvalidDeviceFunction;
  }
  Stream* stream = stream_of(handle);
  if (stream == nullptr) return kInvalidHandle;
  Work work;
  work.kind = WorkKind::kernel;
  work.name = kernel->name;
  std::copy_n(launch.blocks, 3, work.blocks);
  std::copy_n(launch.threads, 3, work.threads);
  kernel->prepare(launch, work);
  return submit(*stream, std::move(work));
}

}  // namespace emulation
