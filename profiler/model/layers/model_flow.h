#pragma once

#include <vector>

#include "profiler/base/index.h"
#include "profiler/model/layers/model.h"

namespace mptune::profiler {

/// A tensor on its way through a model. Where it is not known how many tensors cross a cut, one of these stands for all of them.
struct ModelTensor {
  static constexpr int kAll = -1;

  int maker = -1;                 ///< layer that computes it; -1: it is an input of the model
  int output = 0;                 ///< its index among the maker's outputs, or among the model's inputs; kAll: all of them
  std::vector<int> readers;       ///< layers that read it, ascending; the number of layers stands for the loss
  std::vector<int> several = {};  ///< readers in which more than one operator may read it
  bool operator==(const ModelTensor&) const = default;
};

/// Which layers of a model read what others compute, from Layer::flow. A model whose layers do not describe their flow is a chain.
class ModelFlow {
 public:
  /// Throws Error if the layers' flows do not fit each other.
  explicit ModelFlow(const std::vector<ModelLayer>& layers);

  [[nodiscard]] const std::vector<ModelTensor>& tensors() const { return tensors_; }
  /// Returns indices into tensors(): the inputs of the layer after the cut, in its order; after the last layer, what the loss takes.
  [[nodiscard]] const std::vector<int>& at(int cut) const { return cuts_[as_index(cut)]; }
  /// True if the cut's tensors are one entry that stands for all of them.
  [[nodiscard]] bool is_unknown(int cut) const;

 private:
  [[nodiscard]] int add(int maker, int output);
  [[nodiscard]] std::vector<int> made_by(int maker, int count);
  void add_reader(int tensor, int layer, int operators);
  void pass_through(int layer, const std::vector<ModelLayer>& layers);

  std::vector<ModelTensor> tensors_;
  std::vector<std::vector<int>> cuts_;  ///< by the index of the layer after the cut
};

}  // namespace mptune::profiler
