#pragma once

#include <string>
#include <vector>

#include <ATen/core/ivalue.h>

namespace mptune {

/// Index of a Python operator on numbers ("_operator.mul", "math.trunc", "torch.sym_max"), -1 for none that is known.
[[nodiscard]] int symbolic_operator(const std::string& target);

/// Its result, with Python's rules for integers, floats and truth values. Throws std::invalid_argument for operands that it does not take
/// (division by zero, too few).
[[nodiscard]] c10::IValue run_symbolic(int symbolic, const std::vector<c10::IValue>& operands);

}  // namespace mptune
