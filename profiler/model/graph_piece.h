#pragma once

#include <vector>

#include <torch/csrc/autograd/edge.h>

#include "mptune/profiler/model/layer.h"

namespace mptune {

/// Leaves that cut the graph: the same memory, and a gradient required where the given tensor requires one.
[[nodiscard]] Tensors as_leaves(const Tensors& tensors);

/// What a layer computed while gradients were off, marked as if they had been on: an output requires a gradient unless it is (a view of) an
/// input that requires none, holds no floating-point numbers, or depends on nothing that can be trained: no input of this layer requires a
/// gradient and the layer has no parameters. Where gradients are on autograd knows, and `outputs` come back as they are.
[[nodiscard]] Tensors marked_outputs(const Layer& layer, const Tensors& inputs, Tensors outputs);

/// The graph between two cuts, from its forward to its backward. It is held by its roots, not by its outputs: their memory is free as soon
/// as nobody behind needs it.
struct GraphPiece {
  Tensors inputs;                            ///< leaves
  std::vector<torch::autograd::Edge> roots;  ///< where the gradients of the outputs enter; invalid for outputs without one
  std::vector<int> passed;                   ///< per output: the input that it is, where nothing else uses that one; else -1
};

/// Fills in the roots. Requires: `outputs` computed from piece.inputs with gradients on.
void set_roots(GraphPiece& piece, const Tensors& outputs);

/// Adds the piece's gradients to its parameters' and returns those of its inputs; undefined for inputs that require none or got none.
/// `gradients` of the outputs; undefined ones are left out.
[[nodiscard]] Tensors backward_through(GraphPiece piece, Tensors gradients);

}  // namespace mptune
