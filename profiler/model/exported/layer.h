#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "profiler/model/exported/cuts.h"
#include "profiler/model/exported/early_writes.h"
#include "profiler/model/exported/flat_regions.h"
#include "profiler/model/exported/graph.h"
#include "profiler/model/layers/layer.h"
#include "profiler/model/program/size_guards.h"

namespace mptune::profiler {

/// A bound program, immutable and shared by its layers and their clones. Its nodes are the file's nodes in another order and more of them
/// (flat_regions.h, early_writes.h).
struct BoundProgram {
  BoundProgram(ExportedProgram the_program, const std::string& where, std::int64_t samples)
      : program(with_early_writes(with_flat_regions(std::move(the_program)), where)),
        graph(program, where),
        cuts(program, graph, samples),
        demands(program) {}
  BoundProgram(const BoundProgram&) = delete;
  BoundProgram& operator=(const BoundProgram&) = delete;

  ExportedProgram program;
  ExportedGraph graph;
  ProgramCuts cuts;
  SizeDemands demands;
};

/// Makes a layer of nodes [first, last) of a program.
/// Inputs: the values that the cut before `first` carries, ascending; for the first layer, the program's tensor inputs.
/// Outputs: the values that the cut before `last` carries; for the last layer, the program's tensor outputs.
/// `tensors`: parameters, buffers and constants of the program by full name; the layer copies those that it uses.
[[nodiscard]] std::unique_ptr<Layer> make_exported_layer(std::shared_ptr<const BoundProgram> program, int first, int last,
                                                         const std::map<std::string, at::Tensor>& tensors);

/// The nodes of a program that an exported layer runs.
struct ExportedRange {
  std::shared_ptr<const BoundProgram> program;
  int first = 0, last = 0;
};
/// Returns the nodes that a layer runs; nullopt for layers of other kinds.
[[nodiscard]] std::optional<ExportedRange> exported_range(const Layer& layer);

/// Makes one layer of the whole program, with copies of the tensors of `layers`: all layers of a program, in order. Null for other kinds.
[[nodiscard]] std::unique_ptr<Layer> whole_exported_layer(const std::vector<const Layer*>& layers);

/// Called after each node of an exported layer, with the values that the layer holds then.
using NodeObserver = std::function<void(int node, const ProgramValues& values)>;
/// Sets the observer of a layer; null removes it. Requires: an exported layer.
void observe_nodes(Layer& layer, NodeObserver observer);

/// Returns the inputs and outputs of a layer, as described at make_exported_layer().
[[nodiscard]] std::vector<int> exported_layer_inputs(const BoundProgram& program, int first);
[[nodiscard]] std::vector<int> exported_layer_outputs(const BoundProgram& program, int last);

}  // namespace mptune::profiler
