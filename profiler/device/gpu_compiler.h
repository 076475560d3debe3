#pragma once

#include <string>
#include <vector>

namespace mptune::profiler {

/// NVRTC, the compiler of CUDA code that LibTorch uses for kernels of its own. Needs neither driver nor GPU.
class GpuCompiler {
 public:
  /// Opens `library`: NVRTC, or a library that is linked to it. Throws Error (environment). It is never closed.
  explicit GpuCompiler(const std::string& library);

  struct Compiled {
    std::string machine_code;  ///< a cubin
    std::string messages;
  };
  /// Compiles C++17 code for GPUs of one compute capability (90: 9.0). Functions are device functions unless they say otherwise. Throws
  /// Error (environment) with the compiler's messages.
  [[nodiscard]] Compiled compile(const char* code, int capability, const std::vector<const char*>& options = {}) const;

 private:
  // NVRTC's functions; the types are declared here because its header may be absent.
  using Program = void*;
  int (*create_)(Program*, const char* code, const char* name, int headers, const char* const* texts, const char* const* names) = nullptr;
  int (*compile_)(Program, int options, const char* const* texts) = nullptr;
  int (*destroy_)(Program*) = nullptr;
  int (*code_size_)(Program, std::size_t*) = nullptr;
  int (*code_)(Program, char*) = nullptr;
  int (*log_size_)(Program, std::size_t*) = nullptr;
  int (*log_)(Program, char*) = nullptr;
};

}  // namespace mptune::profiler
