#include <cstdlib>
#include <string>
#include <vector>

#include "profiler/base/error.h"
#include "profiler/model/program/exported_program.h"
#include "profiler/model/program/sample_axes.h"
#include "profiler/model/program/size_guards.h"

namespace {

bool makes_sense(const mptune::profiler::ProgramGraph& graph) {
  const auto sound = [&](const mptune::profiler::ProgramArgument& argument) {
    const auto exists = [&](const mptune::profiler::ProgramValue& value) {
      return value.index >= -1 && value.index < static_cast<int>(graph.values.size());
    };
    if (const auto* value = std::get_if<mptune::profiler::ProgramValue>(&argument)) return value->index >= 0 && exists(*value);
    if (const auto* list = std::get_if<mptune::profiler::ProgramTensors>(&argument))
      for (const mptune::profiler::ProgramValue& value : *list)
        if (!exists(value)) return false;
    if (const auto* region = std::get_if<mptune::profiler::ProgramRegion>(&argument))
      return region->index >= 0 && region->index < static_cast<int>(graph.graphs.size());
    return true;
  };
  for (const mptune::profiler::ProgramNode& node : graph.nodes) {
    for (const mptune::profiler::NamedArgument& input : node.inputs)
      if (!sound(input.argument)) return false;
    for (const mptune::profiler::ProgramArgument& output : node.outputs)
      if (!sound(output)) return false;
  }
  for (const mptune::profiler::ProgramGraph& inner : graph.graphs)
    if (!makes_sense(inner)) return false;
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const mptune::profiler::ExportedProgram program = mptune::profiler::read_program(text, "fuzz");
    if (!makes_sense(program.graph) || program.inputs.size() != program.graph.inputs.size()) std::abort();
    for (const mptune::profiler::ValueDescription& value : program.graph.values)
      if (value.size) (void)value.size->value({{"s1", 3}});
    const auto axes = mptune::profiler::sample_axes(program.graph, mptune::profiler::sample_symbols(program), {});
    if (axes.size() != program.graph.values.size()) std::abort();
    const mptune::profiler::SizeDemands demands(program);
    demands.check(std::vector<std::vector<std::int64_t>>(program.inputs.size(), {3, 8}));
  } catch (const mptune::Error&) {
    // A refusal is what broken input gets.
  }
  try {
    (void)mptune::profiler::read_stored_tensors(text, "fuzz");
  } catch (const mptune::Error&) {
  }
  return 0;
}
