#pragma once

/// What the bridge knows of an operator of LibTorch: which arguments it writes, what its results are, how it is computed.

#include <ATen/core/Generator.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <vector>

namespace emulation {

using Values = std::vector<c10::IValue>;

struct OperatorFacts;

/// Computes an operator with CPU tensors: takes the arguments from the stack and leaves the results, as a boxed kernel does. `generator` is
/// for random numbers. Runs on a stream's thread, below autograd.
using Compute = void (*)(const OperatorFacts& facts, torch::jit::Stack& stack, const at::Generator& generator);

/// Floating-point operations of a call.
using Flops = double (*)(const Values& arguments);

struct OperatorFacts {
  c10::OperatorHandle handle;
  const char* name = "";                  ///< interned, without the overload: "aten::add"
  std::vector<bool> written{};            ///< per argument
  std::vector<bool> is_output{};          ///< per argument: out=, which may be of any size
  std::vector<int> argument_of_result{};  ///< per result: the written argument that it is, -1: a new tensor
  std::vector<bool> by_kind{};            ///< per argument: numbers that cannot change the results' shapes
  int training_argument = -1;             ///< where it is true, batch norm writes its running mean and variance
  std::vector<int> running_statistics{};  ///< these arguments
  bool waits = false;                     ///< results depend on numbers, or are none of tensors
  bool takes_host_tensors = false;        ///< beside CUDA tensors
  bool is_random = false;
  int generator_argument = -1;
  bool is_matrix_product = false;  ///< cuBLAS takes a workspace for it
  bool has_cpu_kernel = false;
  Flops flops = nullptr;
  Compute compute = nullptr;
};

/// Facts of an operator of LibTorch; `compute` null: its CPU kernel.
[[nodiscard]] OperatorFacts make_facts(const c10::OperatorHandle& handle, Compute compute = nullptr);

/// Facts are added while the library is loaded and only read afterwards.
void add_facts(OperatorFacts facts);
[[nodiscard]] const OperatorFacts& facts_of(const c10::OperatorHandle& handle);

}  // namespace emulation
