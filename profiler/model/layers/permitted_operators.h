#pragma once

#include <string>

#include <ATen/core/function_schema.h>

namespace mptune::profiler {

/// Says why a program in a file may not call an operator; "" if it may. Programs may only compute:
/// - the operator is LibTorch's own (`aten::`), and takes and returns tensors, numbers and other plain values: no storages, streams,
///   futures or objects of C++ classes;
/// - a text may be the name of a file, so that only listed operators take one (`reduce="mean"`, `indexing="ij"`, methods of strings);
/// - operators that PyTorch keeps to itself (`aten::_...`) are listed one by one: some of them check neither indices nor sizes;
/// - operators that replace a tensor's memory or size, run backward or set the process's seed are excluded.
/// The same rules hold for exported programs and TorchScript.
[[nodiscard]] std::string refusal_of_operator(const c10::FunctionSchema& schema);

}  // namespace mptune::profiler
