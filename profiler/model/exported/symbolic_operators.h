#pragma once

#include <string>
#include <vector>

#include <ATen/core/ivalue.h>

namespace mptune::profiler {

/// Returns the index of a Python operator on numbers ("_operator.mul", "math.trunc", "torch.sym_max"); -1 if unknown.
[[nodiscard]] int symbolic_operator(const std::string& target);

/// Evaluates a symbolic operator with Python's rules for integers, floats and booleans. Throws std::invalid_argument for unsuitable
/// operands (division by zero, too few).
[[nodiscard]] c10::IValue run_symbolic(int symbolic, const std::vector<c10::IValue>& operands);

}  // namespace mptune::profiler
