#include "profiler/device/gpu_compiler.h"

#include <dlfcn.h>

#include <memory>

#include "profiler/base/error.h"

namespace mptune::profiler {
namespace {

constexpr const char* kInstall = "install NVRTC of LibTorch's CUDA version (the package nvidia-cuda-nvrtc)";

/// Reads one of the compiler's texts, without the 0 at its end.
template <class Size, class Read>
std::string text_of(void* program, const Size& size_of, const Read& read) {
  std::size_t size = 0;
  if (size_of(program, &size) != 0 || size == 0) return {};
  std::string text(size, '\0');
  if (read(program, text.data()) != 0) return {};
  return text;
}

}  // namespace

GpuCompiler::GpuCompiler(const std::string& library) {
  void* opened = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr)
    throw Error("the compiler of GPU code can't be loaded: " + std::string(dlerror()), library, kInstall, ExitCode::environment);
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(opened, name));
    if (function == nullptr) throw Error("the compiler of GPU code has no " + std::string(name), library, kInstall, ExitCode::environment);
  };
  find(create_, "nvrtcCreateProgram");
  find(compile_, "nvrtcCompileProgram");
  find(destroy_, "nvrtcDestroyProgram");
  find(code_size_, "nvrtcGetCUBINSize");
  find(code_, "nvrtcGetCUBIN");
  find(log_size_, "nvrtcGetProgramLogSize");
  find(log_, "nvrtcGetProgramLog");
}

GpuCompiler::Compiled GpuCompiler::compile(const char* code, int capability, const std::vector<const char*>& options) const {
  const std::string target = "sm_" + std::to_string(capability), architecture = "-arch=" + target;
  Program made = nullptr;
  if (create_(&made, code, "mptune", 0, nullptr, nullptr) != 0)
    throw Error("the compiler of GPU code can't be started", target, kInstall, ExitCode::environment);
  const auto destroy = [this](Program* program) { (void)destroy_(program); };
  const std::unique_ptr<Program, decltype(destroy)> owner(&made, destroy);
  std::vector<const char*> all{architecture.c_str(), "-std=c++17", "-default-device"};
  all.insert(all.end(), options.begin(), options.end());
  const int status = compile_(made, static_cast<int>(all.size()), all.data());
  Compiled compiled{{}, text_of(made, log_size_, log_)};
  if (!compiled.messages.empty()) compiled.messages.pop_back();
  if (status == 0) compiled.machine_code = text_of(made, code_size_, code_);
  if (compiled.machine_code.empty())
    throw Error("GPU code can't be compiled: " + compiled.messages.substr(0, compiled.messages.find('\n')), target, kInstall,
                ExitCode::environment);
  return compiled;
}

}  // namespace mptune::profiler
