#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mptune/profiler/exported/cuts.h"
#include "mptune/profiler/exported/graph.h"
#include "mptune/profiler/model/layer.h"
#include "mptune/profiler/program/size_guards.h"

namespace mptune {

/// A program bound once and never changed: what all its layers and their clones refer to.
struct BoundProgram {
  BoundProgram(ExportedProgram the_program, const std::string& where, std::int64_t samples)
      : program(std::move(the_program)), graph(program, where), cuts(program, graph, samples), demands(program) {}
  BoundProgram(const BoundProgram&) = delete;
  BoundProgram& operator=(const BoundProgram&) = delete;

  ExportedProgram program;
  ExportedGraph graph;
  ProgramCuts cuts;
  SizeDemands demands;
};

/// Nodes [first, last) of a program as a layer. Its inputs are what the cut before `first` carries, in the order of values (for the first
/// layer the program's tensor inputs), its outputs what the cut before `last` carries (for the last layer the program's tensor outputs).
/// `tensors`: parameters, buffers and constants of the program by full name; the layer copies those that it uses.
[[nodiscard]] std::unique_ptr<Layer> make_exported_layer(std::shared_ptr<const BoundProgram> program, int first, int last,
                                                         const std::map<std::string, at::Tensor>& tensors);

/// What an exported layer runs of which program.
struct ExportedRange {
  std::shared_ptr<const BoundProgram> program;
  int first = 0, last = 0;
};
/// Nothing for layers of other kinds.
[[nodiscard]] std::optional<ExportedRange> exported_range(const Layer& layer);

/// The whole program whose layers these are, all of them in order, as one layer with copies of their tensors; null for other kinds.
[[nodiscard]] std::unique_ptr<Layer> whole_exported_layer(const std::vector<const Layer*>& layers);

/// Sees each node of an exported layer just after it ran, with the values that the layer holds then.
using NodeObserver = std::function<void(int node, const ProgramValues& values)>;
/// From now on; null: nobody looks. Requires: an exported layer.
void observe_nodes(Layer& layer, NodeObserver observer);

/// Values that go in and come out, as above.
[[nodiscard]] std::vector<int> exported_layer_inputs(const BoundProgram& program, int first);
[[nodiscard]] std::vector<int> exported_layer_outputs(const BoundProgram& program, int last);

}  // namespace mptune
