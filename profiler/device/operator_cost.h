#pragma once

#include <optional>
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

/// Returns the time that one operator takes on a GPU of this kind [s], from its tensors' shapes and types: 0 if it computes nothing (a
/// view); nullopt if its time is that of the operators that it calls, where it calls any, and otherwise of reading its inputs and writing
/// its outputs (copying_seconds).
/// Products of matrices, convolutions and attention take their operations over a share of the rate of the data sheet, or their bytes over a
/// share of that of memory, whichever takes longer; every kernel has a fixed time besides. docs/estimates.md says where the shares are
/// from.
[[nodiscard]] std::optional<double> operator_seconds(const OperatorCall& call, const Hardware& hardware);
/// Returns the time of one kernel that reads the call's inputs and writes its outputs [s].
[[nodiscard]] double copying_seconds(const OperatorCall& call, const Hardware& hardware);
/// Returns the rate at which kernels read and write memory [bytes/s].
[[nodiscard]] double reached_bytes_per_second(const Hardware& hardware);

}  // namespace mptune::profiler
