#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "profiler/base/index.h"
#include "profiler/model/exported/layer.h"

namespace mptune::profiler {

/// What a layer needs of the program, computed once for all clones.
struct LayerShape {
  std::shared_ptr<const BoundProgram> bound;
  int first = 0, last = 0;
  std::vector<int> nodes;
  std::vector<std::vector<int>> released;  ///< values to release after each node
  std::vector<int> inputs, outputs;
  std::vector<bool> cloned;  ///< by input: cloned, because an in-place operator of this layer writes to it
  std::vector<int> numbers;  ///< integers computed by other layers
  std::vector<int> written;  ///< state that an in-place operator writes to
  std::string kind;
  TensorFlow flow;

  [[nodiscard]] const ProgramGraph& graph() const { return bound->program.graph; }
  [[nodiscard]] const ValueDescription& value(int index) const { return graph().values[as_index(index)]; }
};

/// Returns the shape of the layer with nodes [first, last). Requires: cuts that are not forbidden.
[[nodiscard]] LayerShape shape_of(std::shared_ptr<const BoundProgram> bound, int first, int last);

/// Returns the parameters, buffers and constants that a layer holds. A batch norm's counter belongs to the layer of its running mean.
[[nodiscard]] std::set<int> state_of(const LayerShape& shape);

}  // namespace mptune::profiler
