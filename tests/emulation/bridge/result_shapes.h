#pragma once

/// Which tensors an operator gives, known before its numbers are. Found by running the CPU kernel once with zeros, which are valid indices,
/// targets and sizes, and remembered by what the results can depend on. Meta kernels are not asked: some give the GPU's shapes, and under
/// Python many are functions of Python.

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "tests/emulation/bridge/operator_facts.h"

namespace emulation {

struct TensorShape {
  bool is_defined = false;
  at::ScalarType type = at::kFloat;
  std::vector<std::int64_t> sizes{};
  std::vector<std::int64_t> strides{};  ///< of a tensor without gaps and overlaps
};

struct ResultShapes {
  struct Result {
    bool is_list = false;
    std::vector<TensorShape> tensors{};  ///< one, if it is no list
  };
  struct Resized {
    std::size_t argument;
    TensorShape shape;
  };
  bool depend_on_numbers = false;  ///< the kernel refused zeros: only a run tells, and whether the arguments are wrong
  std::vector<Result> results;     ///< of the operator's; empty where a result is a written argument
  std::vector<Resized> resized;    ///< written arguments (out=) that get another size
};

/// Any thread may call it.
[[nodiscard]] std::shared_ptr<const ResultShapes> shapes_of(const OperatorFacts& facts, const Values& arguments);

[[nodiscard]] TensorShape shape_of(const at::Tensor& tensor);

}  // namespace emulation
