#pragma once

#include <vector>

#include <torch/csrc/autograd/edge.h>

#include "profiler/model/layers/layer.h"

namespace mptune::profiler {

/// Detaches tensors: returns leaves with the same memory that require gradients if the tensors do. Undefined tensors stay undefined. A
/// tensor that occurs twice becomes one leaf.
[[nodiscard]] Tensors as_leaves(const Tensors& tensors);

/// Marks outputs that a layer computed with gradients off as requiring gradients where they would with gradients on.
/// An output requires no gradient if it is (a view of) an input that requires none, if it is neither floating-point nor complex, or if the
/// layer has no parameters and no input that requires a gradient. With gradients on, returns `outputs` unchanged.
[[nodiscard]] Tensors marked_outputs(const Layer& layer, const Tensors& inputs, Tensors outputs);

/// The autograd graph between two cuts, from its forward to its backward. Its roots keep it alive, not its outputs: their memory is freed
/// as soon as no later layer needs it.
struct GraphPiece {
  Tensors inputs;                            ///< leaves
  std::vector<torch::autograd::Edge> roots;  ///< where the gradients of the outputs enter; invalid for outputs without gradient
  std::vector<int> passed;                   ///< per output: index of the input that it passes on, if nothing else reads that; else -1
};

/// Sets piece.roots. Requires: `outputs` computed from piece.inputs with gradients on.
void set_roots(GraphPiece& piece, const Tensors& outputs);

/// Runs backward with `gradients` of the outputs (undefined ones are left out; empty: there are none). Accumulates gradients of parameters
/// and returns the gradients of the inputs, undefined for inputs without gradient. If an input occurs twice, its first occurrence gets the
/// whole gradient.
[[nodiscard]] Tensors backward_through(GraphPiece piece, Tensors gradients);

}  // namespace mptune::profiler
