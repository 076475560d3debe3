#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "profiler/model/exported/archive.h"
#include "profiler/model/exported/layer.h"

namespace mptune::testing {

/// A step of eager PyTorch that tests/profiler/model/exported/make_files.py left.
struct EagerStep {
  Tensors inputs;
  at::Tensor loss;
  std::map<std::string, at::Tensor> gradients, buffers;
};
[[nodiscard]] EagerStep read_eager_step(const std::string& path);

/// How two sets of tensors agree.
struct Agreement {
  int equal = 0, different = 0;
  double worst = 0;  ///< largest difference over the largest value of its tensor, or over `least` if that is more
  double least = 1e-6;
  std::string worst_name;
  void add(const std::string& name, const at::Tensor& ours, const at::Tensor& theirs);
};

/// How tensors cross a cut: as they are, or as dense copies.
enum class Boundary { shared, copied };

/// What becomes the loss where the program brings none.
enum class LossOf { mean_of_squares, sum_of_squares };

/// An exported program as a chain of layers between cuts, each with detached boundaries as the stages of a pipeline have them.
class ExportedChain {
 public:
  /// `cuts` ascending, without 0 and the end.
  ExportedChain(std::shared_ptr<const profiler::BoundProgram> program, const std::map<std::string, at::Tensor>& tensors,
                const std::vector<int>& cuts);

  /// From here on layers draw as run_layer has them draw; before, as LibTorch does.
  void draw(std::uint64_t seed, std::int64_t step);

  /// Forward and backward, gradients added to those there are; the program's first output is the loss where it is a scalar. Each layer is
  /// run again before its backward where `recompute`.
  void step(const Tensors& inputs, bool recompute = false, std::int64_t first_sample = 0, LossOf loss = LossOf::mean_of_squares);

  void set_boundary(Boundary boundary) { boundary_ = boundary; }

  /// By the names that the program uses; tied ones summed.
  [[nodiscard]] std::map<std::string, at::Tensor> gradients() const;
  [[nodiscard]] std::map<std::string, at::Tensor> buffers() const;
  [[nodiscard]] at::Tensor loss() const { return loss_.detach(); }

  /// Loss, gradients and buffers against eager PyTorch's.
  [[nodiscard]] Agreement compare(const EagerStep& expected) const;
  [[nodiscard]] std::size_t size() const { return layers_.size(); }

 private:
  [[nodiscard]] Tensors forward(Layer& layer, const Tensors& inputs, RunContext context) const;

  std::vector<std::unique_ptr<Layer>> layers_;
  std::map<std::string, std::string> stored_as_;  ///< tied parameters go by the name that the program uses
  at::Tensor loss_;
  bool draws_ = false;
  Boundary boundary_ = Boundary::shared;
  RunContext drawing_;
};

}  // namespace mptune::testing
