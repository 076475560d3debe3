#pragma once

#include <memory>
#include <string>

#include <torch/csrc/jit/api/module.h>

#include "mptune/profiler/model/layer.h"

namespace mptune {

/// How many tensors a module's forward takes, and gives.
struct ScriptArity {
  int takes = 1;
  int gives = 1;
  static constexpr int kAny = -1;  ///< a list of tensors
};

/// Of the module's forward. Throws Error that calls the layer `name`: without a forward, with inputs or results that are no tensors, tuples
/// or lists of tensors.
[[nodiscard]] ScriptArity script_arity(const torch::jit::Module& module, const std::string& name);

/// "BatchNorm2d" of "__torch__.torch.nn.modules.batchnorm.___torch_mangle_3.BatchNorm2d".
[[nodiscard]] std::string script_kind(const torch::jit::Module& module);

/// A TorchScript module as a layer. Several inputs are its arguments one by one, or a tuple or list where it takes such; a tuple or list
/// that it returns is several outputs. Parameters and buffers are called name + "." + path. The optimising executor is off while it runs.
[[nodiscard]] std::unique_ptr<Layer> make_script_layer(torch::jit::Module module, const std::string& name);

}  // namespace mptune
