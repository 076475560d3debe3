#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "mptune/profiler/exported/layer.h"

namespace mptune {

/// What a layer needs of the program, worked out once for all its clones.
struct LayerShape {
  std::shared_ptr<const BoundProgram> bound;
  int first = 0, last = 0;
  std::vector<int> nodes;
  std::vector<std::vector<int>> released;  ///< after each node
  std::vector<int> inputs, outputs;
  std::vector<bool> cloned;  ///< inputs that an in-place operator of this layer writes to
  std::vector<int> numbers;  ///< integers made elsewhere
  std::vector<int> written;  ///< state that an in-place operator writes to
  std::string kind;

  [[nodiscard]] const ProgramGraph& graph() const { return bound->program.graph; }
  [[nodiscard]] const ValueDescription& value(int index) const { return graph().values[static_cast<std::size_t>(index)]; }
};

/// Of the layer with nodes [first, last). Requires: cuts that are not forbidden.
[[nodiscard]] LayerShape shape_of(std::shared_ptr<const BoundProgram> bound, int first, int last);

/// Parameters, buffers and constants that a layer holds. A batch norm's counter goes with its running mean, wherever the node that counts
/// is.
[[nodiscard]] std::set<int> state_of(const LayerShape& shape);

}  // namespace mptune
