#pragma once

#include <string_view>
#include <vector>

#include <ATen/core/ivalue.h>

#include "profiler/base/hardware.h"

namespace mptune::profiler {

/// One call of an operator.
struct OperatorCall {
  std::string_view name;  ///< "aten::mm"
  bool is_view = false;   ///< what it returns is memory of its inputs, not written
  std::vector<c10::IValue> inputs = {};
  std::vector<c10::IValue> outputs = {};
};

/// Returns the time of an operator that calls no others on a GPU of this kind [s], from its tensors' shapes and types. A view, and memory
/// that is made and not written, take none. Products of matrices, convolutions and attention take their operations or their bytes,
/// whichever takes longer; all others take their bytes. Every kernel has a fixed time besides (hardware.h).
[[nodiscard]] double operator_seconds(const OperatorCall& call, const Hardware& hardware);
/// Returns the rate at which kernels read and write memory [bytes/s].
[[nodiscard]] double reached_bytes_per_second(const Hardware& hardware);

}  // namespace mptune::profiler
