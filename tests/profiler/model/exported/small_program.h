#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "profiler/model/program/exported_program.h"

namespace mptune::testing {

/// An exported program made by hand, operator by operator. Sizes of -1 are the samples.
class SmallProgram {
 public:
  using Sizes = std::vector<std::int64_t>;

  SmallProgram() {
    program.symbols["s1"] = {1, {}};
    program.torch_version = "2.11.0";
  }

  int input(const std::string& name, const Sizes& sizes) { return state({profiler::ProgramInput::Kind::user, ""}, name, sizes, false); }
  int parameter(const std::string& name, const at::Tensor& tensor) {
    tensors[name] = tensor;
    return state({profiler::ProgramInput::Kind::parameter, name}, name, tensor.sizes().vec(), true);
  }
  int buffer(const std::string& name, const at::Tensor& tensor) {
    tensors[name] = tensor;
    return state({profiler::ProgramInput::Kind::buffer, name}, name, tensor.sizes().vec(), false);
  }

  /// Calls "aten.add.Tensor" and the like; values are given as ProgramValue.
  int call(const std::string& target, std::vector<profiler::NamedArgument> inputs, const Sizes& sizes) {
    profiler::ProgramNode node;
    node.target = "torch.ops." + target;
    node.inputs = std::move(inputs);
    node.module = "block";
    node.source = "net.py:" + std::to_string(program.graph.nodes.size() + 1) + ", a line";
    const int made = value("v" + std::to_string(program.graph.nodes.size()), sizes, false);
    node.outputs = {profiler::ProgramValue{made}};
    program.graph.nodes.push_back(std::move(node));
    return made;
  }
  int one(const std::string& target, int x, const Sizes& sizes) { return call(target, {{"self", profiler::ProgramValue{x}}}, sizes); }
  int two(const std::string& target, int x, int y, const Sizes& sizes) {
    return call(target, {{"self", profiler::ProgramValue{x}}, {"other", profiler::ProgramValue{y}}}, sizes);
  }
  int number(const std::string& target, int x, double y, const Sizes& sizes) {
    return call(target, {{"self", profiler::ProgramValue{x}}, {"other", y}}, sizes);
  }

  void output(int made) {
    program.outputs.push_back({});
    program.graph.outputs.emplace_back(profiler::ProgramValue{made});
  }

  profiler::ExportedProgram program;
  std::map<std::string, at::Tensor> tensors;

 private:
  int value(const std::string& name, const Sizes& sizes, bool gradient) {
    profiler::TensorDescription about;
    about.scalar_type = 7;
    about.requires_grad = gradient;
    for (const std::int64_t size : sizes)
      about.sizes.push_back(size < 0 ? profiler::SymbolicSize::parse("Symbol('s1', positive=True, integer=True)")
                                     : profiler::SymbolicSize(size));
    about.strides = about.sizes;
    program.graph.values.push_back({name, profiler::ValueDescription::Kind::tensor, about, {}});
    return static_cast<int>(program.graph.values.size()) - 1;
  }
  int state(const profiler::ProgramInput& input, const std::string& name, const Sizes& sizes, bool gradient) {
    const int made = value(name, sizes, gradient);
    program.inputs.push_back(input);
    program.graph.inputs.emplace_back(profiler::ProgramValue{made});
    return made;
  }
};

}  // namespace mptune::testing
