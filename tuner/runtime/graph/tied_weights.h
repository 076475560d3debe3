#pragma once

#include <map>
#include <string>
#include <vector>

#include "tuner/runtime/graph/bound_graph.h"

namespace mptune::tuner {

/// Adds to a parameter's gradient, on the parameter's device; an undefined `gradient` adds nothing.
void add_gradient(at::Tensor parameter, const at::Tensor& gradient);

/// Parameters that layers of several stages use: the first stage that holds one trains it.
class TiedWeights {
 public:
  /// The parameter's copy in a later stage.
  struct Copy {
    int stage = 0;
    at::Tensor tensor;  ///< of the replica that is trained here; undefined for none
  };
  struct Weight {
    int number = 0;            ///< by name, from 0
    int stage = 0;             ///< the stage that trains it
    at::Tensor first;          ///< of the replica that is trained here; undefined for none
    std::vector<Copy> copies;  ///< in order of the stages
  };

  explicit TiedWeights(const BoundGraph& graph);

  [[nodiscard]] bool empty() const { return weights_.empty(); }
  /// Requires: a copy of a tied weight.
  [[nodiscard]] const Weight& of(const std::string& name) const { return weights_.at(name); }
  [[nodiscard]] const std::map<std::string, Weight>& all() const { return weights_; }

 private:
  std::map<std::string, Weight> weights_;
};

}  // namespace mptune::tuner
