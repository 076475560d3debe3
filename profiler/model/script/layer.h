#pragma once

#include <memory>
#include <string>

#include <torch/csrc/jit/api/module.h>

#include "profiler/model/layers/layer.h"

namespace mptune::profiler {

/// Numbers of tensors that a module's forward takes and returns.
struct ScriptArity {
  int takes = 1;
  int gives = 1;
  static constexpr int kAny = -1;  ///< a list of tensors
};

/// Returns the arity of the module's forward. Throws Error about layer `name` if there is no forward, or if inputs or results are neither
/// tensors nor tuples or lists of tensors.
[[nodiscard]] ScriptArity script_arity(const torch::jit::Module& module, const std::string& name);

/// Returns "BatchNorm2d" for "__torch__.torch.nn.modules.batchnorm.___torch_mangle_3.BatchNorm2d".
[[nodiscard]] std::string script_kind(const torch::jit::Module& module);

/// Makes a layer of a TorchScript module. Inputs are passed as separate arguments, or as a tuple or list if forward takes one. A returned
/// tuple or list becomes several outputs. Parameters and buffers are named name + "." + path. Runs without the optimising executor.
[[nodiscard]] std::unique_ptr<Layer> make_script_layer(torch::jit::Module module, const std::string& name);

}  // namespace mptune::profiler
