#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include "profiler/model/program/exported_program.h"

namespace mptune::profiler {

/// Values of one run of a graph, by ProgramValue::index.
using ProgramValues = std::vector<c10::IValue>;

/// An argument of an operator, bound once. Constants are converted at binding, values are looked up at every call.
class BoundArgument {
 public:
  /// Binds `argument` to a parameter of `type` by Python's rules: a number for a tensor is wrapped, an integer for a float is converted,
  /// devices are replaced by the run's. Throws std::invalid_argument with one clause if it does not fit.
  [[nodiscard]] static BoundArgument bind(const ProgramArgument& argument, const c10::TypePtr& type);
  /// Binds without conversion, for operators without a schema.
  [[nodiscard]] static BoundArgument bind(const ProgramArgument& argument);
  /// Binds a parameter's default.
  [[nodiscard]] static BoundArgument constant(c10::IValue value);
  /// Binds a device parameter without argument: factories create tensors on the run's device.
  [[nodiscard]] static BoundArgument device();

  /// Returns the value to push; `device` is the run's device.
  [[nodiscard]] c10::IValue value(const ProgramValues& values, at::Device device) const;
  /// Returns the indices of values that the argument reads.
  [[nodiscard]] const std::vector<int>& reads() const { return reads_; }

 private:
  enum class Form { constant, value, tensors, optional_tensors, ints, floats, bools, device };
  enum class Convert { none, to_tensor, to_float };

  Form form_ = Form::constant;
  Convert convert_ = Convert::none;
  c10::IValue constant_;
  std::vector<int> reads_;
  ProgramTensors tensors_;
  ProgramInts ints_;
  ProgramFloats floats_;
  ProgramBools bools_;

  friend class ArgumentBinder;
};

/// Returns LibTorch's type for the file's code (7: float32). Throws std::invalid_argument for an unknown code.
[[nodiscard]] at::ScalarType scalar_type_of(int code);

}  // namespace mptune::profiler
