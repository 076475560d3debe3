#pragma once

#include <map>
#include <string>
#include <vector>

#include "tuner/runtime/bound_graph.h"

namespace mptune::tuner {

/// Adds to a parameter's gradient, on the parameter's device; an undefined `gradient` adds nothing.
void add_gradient(at::Tensor parameter, const at::Tensor& gradient);

/// Parameters that layers of several stages use: the first stage that holds one trains it.
class TiedWeights {
 public:
  /// A parameter and its copies in later stages.
  struct Weight {
    int stage = 0;                   ///< that trains it
    at::Tensor first;                ///< of the stage's first replica
    std::vector<at::Tensor> copies;  ///< of the first replicas of later stages, in their order
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
