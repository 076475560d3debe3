#pragma once

#include <string>

#include "tests/emulation/bridge/operator_facts.h"

namespace emulation {

/// Two calls of an operator with one key have results of the same shapes: operator, sizes, strides and types of the tensors, and the other
/// arguments, of which some count by kind only.
[[nodiscard]] std::string call_key(const OperatorFacts& facts, const Values& arguments);

}  // namespace emulation
