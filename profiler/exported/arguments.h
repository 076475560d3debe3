#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include "mptune/profiler/program/exported_program.h"

namespace mptune {

/// Values of one run of a graph, by ProgramValue::index.
using ProgramValues = std::vector<c10::IValue>;

/// An argument of an operator, bound once: what is constant is made, what is a value is looked up at every call.
class BoundArgument {
 public:
  /// Binds `argument` to a parameter of `type`, which follows what Python does: a number for a tensor is a wrapped number, an integer for a
  /// float is converted, devices are those of the run. Throws std::invalid_argument with a clause for what does not fit.
  [[nodiscard]] static BoundArgument bind(const ProgramArgument& argument, const c10::TypePtr& type);
  /// As it comes, for operators without a schema.
  [[nodiscard]] static BoundArgument bind(const ProgramArgument& argument);
  /// A parameter's default.
  [[nodiscard]] static BoundArgument constant(c10::IValue value);
  /// A device parameter that nobody gave: factories make their tensors where the run is.
  [[nodiscard]] static BoundArgument device();

  /// The value to push; `device` is the run's.
  [[nodiscard]] c10::IValue value(const ProgramValues& values, at::Device device) const;
  /// Indices of the values that it reads.
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

/// The file's code (7: float32) as LibTorch's. Throws std::invalid_argument for one it does not know.
[[nodiscard]] at::ScalarType scalar_type_of(int code);

}  // namespace mptune
