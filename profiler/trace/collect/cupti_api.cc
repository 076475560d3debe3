#include "profiler/trace/collect/cupti_api.h"

#include <dlfcn.h>

#include "profiler/base/error.h"

namespace mptune::profiler {
namespace {

constexpr const char* kLibrary = "libcupti.so.13";
constexpr std::uint32_t kMajor = 10000;
constexpr const char* kInstall = "install the package nvidia-cuda-cupti 13.0 or newer (pip), or cuda-cupti-13-0 of the CUDA toolkit";

struct Library {
  void* handle = nullptr;
  CuptiApi api;
};

// Uses the copy that the program has loaded: a second copy would not see the program's calls.
void* open_library() {
  if (void* loaded = dlopen(kLibrary, RTLD_NOW | RTLD_NOLOAD)) return loaded;
  if (void* found = dlopen(kLibrary, RTLD_NOW)) return found;
  return dlopen(MPTUNE_CUPTI_LIBRARY, RTLD_NOW);
}

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) throw Error(std::string("CUPTI is too old: it has no ") + name, kLibrary, kInstall, ExitCode::environment);
}

// Another major version may change the layout of records. Later minor versions only append fields.
void check_version(const CuptiApi& api) {
  std::uint32_t version = 0;
  api.cuptiGetVersion(&version);
  if (version >= CUPTI_API_VERSION && version / kMajor == CUPTI_API_VERSION / kMajor) return;
  throw Error("CUPTI has version " + std::to_string(version) + ", but mptune needs " + std::to_string(CUPTI_API_VERSION) +
                  " or a later version with the same major number",
              kLibrary, kInstall, ExitCode::environment);
}

Library load() {
  Library library;
  library.handle = open_library();
  if (library.handle == nullptr) throw Error("CUPTI, which records GPUs, was not found", kLibrary, kInstall, ExitCode::environment);
#define MPTUNE_CUPTI_FIND(name) find(library.handle, #name, library.api.name);
  MPTUNE_CUPTI_FUNCTIONS(MPTUNE_CUPTI_FIND)
#undef MPTUNE_CUPTI_FIND
  check_version(library.api);
  return library;
}

const Library& library() {
  static const Library loaded = load();
  return loaded;
}

}  // namespace

const CuptiApi& cupti_api() {
  return library().api;
}

const CuptiApi& cupti_api_with_driver() {
  // Without a driver, CUPTI reports only "unknown error".
  if (dlopen("libcuda.so.1", RTLD_LAZY) == nullptr)
    throw Error("there is no CUDA driver on this machine", "libcuda.so.1", "record on a machine with an NVIDIA GPU and its driver",
                ExitCode::environment);
  return cupti_api();
}

void* cupti_symbol(const char* name) {
  return dlsym(library().handle, name);
}

std::string cupti_text(const CuptiApi& cupti, CUptiResult result) {
  const char* text = nullptr;
  if (cupti.cuptiGetResultString(result, &text) != CUPTI_SUCCESS || text == nullptr) return "CUPTI error " + std::to_string(result);
  return text;
}

}  // namespace mptune::profiler
