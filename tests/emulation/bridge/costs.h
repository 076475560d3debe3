#pragma once

#include <string_view>

#include "tests/emulation/bridge/operator_facts.h"

namespace emulation {

/// How to count an operator's floating-point operations: matrix products and convolutions. Null: its bytes take longer.
[[nodiscard]] Flops flops_of(std::string_view name);

/// True if cuBLAS computes the operator.
[[nodiscard]] bool is_matrix_product(std::string_view name);

}  // namespace emulation
