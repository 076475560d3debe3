#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mptune/profiler/model/exported_cuts.h"
#include "mptune/profiler/model/exported_graph.h"
#include "mptune/profiler/model/layer.h"

namespace mptune {

/// A program bound once and never changed: what all its layers and their clones refer to.
struct BoundProgram {
  BoundProgram(ExportedProgram the_program, const std::string& where, std::int64_t samples)
      : program(std::move(the_program)), graph(program, where), cuts(program, graph, samples) {}
  BoundProgram(const BoundProgram&) = delete;
  BoundProgram& operator=(const BoundProgram&) = delete;

  ExportedProgram program;
  ExportedGraph graph;
  ProgramCuts cuts;
};

/// Nodes [first, last) of a program as a layer. Its inputs are what the cut before `first` carries, in the order of values (for the first
/// layer the program's tensor inputs), its outputs what the cut before `last` carries (for the last layer the program's tensor outputs).
/// `tensors`: parameters, buffers and constants of the program by full name; the layer copies those that it uses.
[[nodiscard]] std::unique_ptr<Layer> make_exported_layer(std::shared_ptr<const BoundProgram> program, int first, int last,
                                                         const std::map<std::string, at::Tensor>& tensors);

/// Values that go in and come out, as above.
[[nodiscard]] std::vector<int> exported_layer_inputs(const BoundProgram& program, int first);
[[nodiscard]] std::vector<int> exported_layer_outputs(const BoundProgram& program, int last);

}  // namespace mptune
