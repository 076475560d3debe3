#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include <torch/csrc/autograd/function.h>
#include <torch/types.h>

#include "profiler/model/layers/graph_piece.h"

namespace mptune::profiler {

/// The gradient of one weight in one micro-batch: what a product node (matrix product, convolution, embedding) of an autograd graph would
/// have computed, set aside to be computed later. Holds the product's input and, after the backward, its output's gradient.
/// run() may be called by any thread, once, after the backward of its piece has ended.
class WeightGradient {
 public:
  virtual ~WeightGradient() = default;

  /// Returns the parameter. A convolution's bias belongs to its weight.
  [[nodiscard]] const at::Tensor& weight() const { return weight_; }
  /// Returns the scalar multiplications of the product, a measure of its work.
  [[nodiscard]] virtual double multiplications() const = 0;
  /// Adds the gradient to weight().grad() (and the bias's), bit for bit as the backward would have, and frees what it holds. Does nothing
  /// if the backward did not reach the product. Throws c10::Error if an input was modified in place meanwhile.
  virtual void run() = 0;
  /// True if run_together() computes this gradient in one product with those of other micro-batches: a convolution whose weight has at
  /// least as many elements as the product's input and its output's gradient.
  [[nodiscard]] virtual bool fuses() const { return false; }
  /// Returns the tensors held until run(): the product's input and its output's gradient.
  [[nodiscard]] virtual std::vector<at::Tensor> held() const = 0;

 protected:
  explicit WeightGradient(at::Tensor weight) : weight_(std::move(weight)) {}
  friend void run_together(std::vector<std::unique_ptr<WeightGradient>>& gradients);
  /// Does what run() does, but a product may add onto the gradient that is there instead of making a new one first.
  virtual void run_onto() { run(); }
  /// Does what run() does for all `gradients`, of which this is the first, in one product. False: that is not possible, and it did nothing.
  virtual bool run_as_one(std::vector<std::unique_ptr<WeightGradient>>& /*gradients*/) { return false; }

 private:
  at::Tensor weight_;
};

using WeightGradients = std::vector<std::unique_ptr<WeightGradient>>;

/// Adds the gradients of one weight in several micro-batches, in this order; a single one as run() does. With several, the sum is
/// associated in another way: convolutions that all fuse() run once for all, matrix products add onto the gradient that is there.
/// Transposed convolutions, other products and those under autocast run one after another. Requires: at least one.
void run_together(WeightGradients& gradients);

/// A layer's own autograd node that lets the gradient of its weight be computed later.
class SplittableNode : public torch::autograd::Node {
 public:
  /// Returns the index of the edge to the weight.
  [[nodiscard]] virtual std::size_t weight_edge() const = 0;
  /// From now on the node computes its other gradients only. The returned object's run() passes the gradient of `weight` to `add`.
  [[nodiscard]] virtual std::unique_ptr<WeightGradient> set_aside(const at::Tensor& weight, std::function<void(at::Tensor)> add) = 0;
};

/// Splits the backward of a piece: afterwards backward_through(piece) computes the gradients of the inputs. It leaves the returned weight
/// gradients to the caller, in the order in which the backward reaches their products' weights. A weight stays in the backward if its
/// product is of another kind and not a SplittableNode, if it has hooks, if another node of the piece uses it, or if it is one of `kept` or
/// of the piece's inputs. Call it between forward and backward, in the thread that runs the backward. No product is computed twice: for a
/// convolution, its bias is set aside, too, or the weight is kept.
[[nodiscard]] WeightGradients set_weights_aside(const GraphPiece& piece, const std::vector<at::Tensor>& kept = {});

}  // namespace mptune::profiler
