#include "profiler/model/layers/input_guard.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "profiler/base/error.h"
#include "profiler/model/random/randomness.h"

namespace mptune::profiler {
namespace {

std::vector<std::uint32_t> versions_of(const Tensors& tensors) {
  std::vector<std::uint32_t> versions;
  versions.reserve(tensors.size());
  for (const auto& tensor : tensors) versions.push_back(tensor.is_inference() ? 0 : static_cast<std::uint32_t>(tensor._version()));
  return versions;
}

Tensors cloned(const Tensors& tensors) {
  Tensors copies;
  copies.reserve(tensors.size());
  for (const auto& tensor : tensors) copies.push_back(tensor.clone());
  return copies;
}

// Autograd detects writes to inputs that require gradients. Only inputs without gradients can be overwritten unnoticed.
bool autograd_guards(const Tensors& inputs) {
  return at::GradMode::is_enabled() && std::ranges::all_of(inputs, [](const at::Tensor& input) { return input.requires_grad(); });
}

}  // namespace

Tensors InputGuard::run(const Tensors& inputs, const RunContext& context, const Forward& forward) {
  const Forward run = [&](const Tensors& given) {
    if (context.draws != nullptr) context.draws->restart();
    return forward(given);
  };
  if (writes_ == Writes::unknown) return watched(inputs, run);
  return writes_ == Writes::yes ? run(cloned(inputs)) : counted(inputs, context, run);
}

Tensors InputGuard::counted(const Tensors& inputs, const RunContext& context, const Forward& forward) {
  const auto before = versions_of(inputs);
  Tensors outputs;
  try {
    outputs = forward(inputs);
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error&) {
    writes_ = Writes::unknown;  // autograd may have refused a write: the next forward tries again with copies
    throw;
  }
  if (versions_of(inputs) == before) return outputs;
  writes_ = Writes::yes;
  throw Error("its forward wrote into its input, which earlier ones did not",
              context.draws != nullptr ? "layer " + context.draws->layer() : "a layer",
              "take the step again with a fresh batch: from now on the layer gets copies");
}

// Passes each input without gradient with its own version counter, and restores its values if they were overwritten. So the backward keeps
// no second copy.
Tensors InputGuard::watched(const Tensors& inputs, const Forward& forward) {
  const bool guarded = autograd_guards(inputs);
  Tensors given, spare;
  for (const auto& input : inputs) {
    const bool own_counter = !guarded && !input.requires_grad();
    given.push_back(guarded ? input : own_counter ? input.variable_data() : input.clone());
    spare.push_back(own_counter ? input.clone() : at::Tensor());
  }
  const auto before = versions_of(given);
  try {
    Tensors outputs = forward(given);
    const bool written = versions_of(given) != before;
    if (guarded || !written) {
      writes_ = written ? Writes::yes : Writes::no;
      return outputs;
    }
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error&) {
    // Autograd refused a write, or an error that copies would not avoid.
  }
  for (std::size_t i = 0; i < spare.size(); ++i)
    if (spare[i].defined()) given[i].copy_(spare[i]);
  Tensors outputs = forward(cloned(inputs));
  writes_ = Writes::yes;
  return outputs;
}

}  // namespace mptune::profiler
