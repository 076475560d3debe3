#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace mptune::profiler {

/// True if the operator adds one term to the gradient of each tensor that it takes once: it has a backward formula of its own, or is known
/// to call an operator that has one. False: it is made of other operators, which may use a tensor more than once.
[[nodiscard]] bool adds_one_term(const c10::OperatorHandle& operation);

}  // namespace mptune::profiler
