/// Loading the library replaces the CUDA kernels of LibTorch's operators. It must follow libtorch_cuda, since the last registration counts.
/// No GPU is touched: it is loaded by the first call of the runtime, under LibTorch's locks.

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "tests/emulation/bridge/compositions.h"
#include "tests/emulation/bridge/copies.h"
#include "tests/emulation/bridge/operators.h"
#include "tests/emulation/bridge/random.h"
#include "tests/emulation/bridge/silent_warnings.h"

namespace emulation {

namespace {

constexpr std::string_view kNamespace = "aten::";

/// Kernels of LibTorch that launch nothing: metadata, allocation, plain copies, and questions about the GPU.
bool stays(std::string_view name) {
  constexpr std::array<std::string_view, 9> kNames = {"set_",          "is_set_to",           "is_pinned", "_pin_memory",
                                                      "record_stream", "_local_scalar_dense", "resize_",   "_efficientzerotensor",
                                                      "_reshape_alias"};
  return name.starts_with("empty") || name.starts_with("_use_") || std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

bool is_composition(std::string_view name) {
  constexpr std::array<std::string_view, 4> kNames = {"_thnn_fused_lstm_cell", "_thnn_fused_gru_cell", "_fused_rms_norm",
                                                      "_fused_sdp_choice"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

/// Views share memory with an argument and are metadata.
bool is_view(const c10::FunctionSchema& schema) {
  return std::any_of(schema.returns().begin(), schema.returns().end(),
                     [](const c10::Argument& result) { return result.alias_info() != nullptr && !result.alias_info()->isWrite(); });
}

/// Also operators that reach kernels of CUDA past the dispatcher, or are composed of kernels that only CUDA has.
std::vector<c10::OperatorName> names_of_operators() {
  std::vector<c10::OperatorName> names = c10::Dispatcher::singleton().getAllOpNamesForDispatchKey(c10::DispatchKey::CUDA);
  for (const char* name : {"aten::copy_", "aten::convolution", "aten::convolution_backward"}) names.emplace_back(name, "");
  return names;
}

torch::CppFunction kernel_of(std::string_view name) {
  if (name == "copy_") return torch::CppFunction::makeFromBoxedFunction<&run_copy>();
  if (name == "_foreach_copy_") return torch::CppFunction::makeFromBoxedFunction<&run_foreach_copy>();
  return torch::CppFunction::makeFromBoxedFunction<&run_operator>();
}

void register_operators(torch::Library& cuda) {
  for (const c10::OperatorName& full_name : names_of_operators()) {
    if (!std::string_view(full_name.name).starts_with(kNamespace)) continue;
    const std::string_view name = std::string_view(full_name.name).substr(kNamespace.size());
    const auto handle = c10::Dispatcher::singleton().findSchema(full_name);
    if (!handle || stays(name) || is_view(handle->schema())) continue;
    if (is_composition(name) && full_name.overload_name.empty()) continue;
    add_facts(make_facts(*handle, name == "native_dropout" && full_name.overload_name.empty() ? compute_dropout : nullptr));
    const std::string overload = full_name.overload_name.empty() ? "" : "." + full_name.overload_name;
    cuda.impl((std::string(name) + overload).c_str(), kernel_of(full_name.overload_name.empty() ? name : std::string_view()));
  }
}

/// Libraries live as long as the process: their end would take the kernels back.
torch::Library& library_of(c10::DispatchKey key) {
  return *new torch::Library(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
}

[[maybe_unused]] const bool registered = [] {
  const c10::WarningUtils::WarningHandlerGuard quiet(&silent_warnings());  // LibTorch warns of replaced kernels
  torch::Library& cuda = library_of(c10::DispatchKey::CUDA);
  register_operators(cuda);
  register_compositions(cuda, library_of(c10::DispatchKey::AutogradCUDA));
  choose_plain_kernels();
  return true;
}();

}  // namespace

}  // namespace emulation
