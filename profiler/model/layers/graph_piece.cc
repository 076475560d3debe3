#include "profiler/model/layers/graph_piece.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

#include "profiler/base/index.h"

namespace mptune::profiler {

namespace {

int index_of(const at::Tensor& tensor, const Tensors& tensors) {
  const auto found = std::ranges::find_if(tensors, [&](const at::Tensor& other) { return other.is_same(tensor); });
  return found == tensors.end() ? -1 : static_cast<int>(found - tensors.begin());
}

at::Tensor leaf_of(const at::Tensor& tensor, bool needs_gradient) {
  if (!tensor.defined()) return {};
  at::Tensor leaf = tensor.detach();
  if (needs_gradient) leaf.requires_grad_();
  return leaf;
}

bool is_differentiable(const at::Tensor& tensor) {
  return tensor.is_floating_point() || tensor.is_complex();
}

// Returns the index of an input that is passed on without being read: its gradient needs no autograd graph, which would copy it. Else -1.
int passed_on(const at::Tensor& output, const Tensors& inputs) {
  const bool unused = output.requires_grad() && output.is_leaf() && !torch::autograd::impl::try_get_grad_accumulator(output);
  return unused ? index_of(output, inputs) : -1;
}

}  // namespace

Tensors as_leaves(const Tensors& tensors) {
  Tensors leaves;
  for (const at::Tensor& tensor : tensors) {
    const int same = tensor.defined() ? index_of(tensor, tensors) : -1;
    const bool again = same >= 0 && as_index(same) < leaves.size();
    leaves.push_back(again ? leaves[as_index(same)] : leaf_of(tensor, tensor.requires_grad()));
  }
  return leaves;
}

Tensors marked_outputs(const Layer& layer, const Tensors& inputs, Tensors outputs) {
  if (at::GradMode::is_enabled()) return outputs;
  const auto requires_grad = [](const at::Tensor& tensor) { return tensor.requires_grad(); };
  if (std::ranges::none_of(inputs, requires_grad) && layer.parameters().empty()) return outputs;
  for (at::Tensor& output : outputs) {
    if (output.defined() && index_of(output, inputs) >= 0) continue;
    const auto is_part_of = [&](const at::Tensor& input) { return input.defined() && !input.requires_grad() && output.is_alias_of(input); };
    if (output.defined() && is_differentiable(output) && std::ranges::none_of(inputs, is_part_of)) output = leaf_of(output, true);
  }
  return outputs;
}

void set_roots(GraphPiece& piece, const Tensors& outputs) {
  piece.roots.clear();
  piece.passed.clear();
  for (const at::Tensor& output : outputs) {
    piece.passed.push_back(passed_on(output, piece.inputs));
    const bool root = output.requires_grad() && piece.passed.back() < 0;
    piece.roots.push_back(root ? torch::autograd::impl::gradient_edge(output) : torch::autograd::Edge());
  }
}

Tensors backward_through(GraphPiece piece, Tensors gradients) {
  Tensors result(piece.inputs.size());
  torch::autograd::edge_list roots;
  torch::autograd::variable_list root_gradients;
  for (std::size_t i = 0; i < piece.roots.size(); ++i) {
    if (i >= gradients.size() || !gradients[i].defined()) continue;
    if (piece.passed[i] >= 0) {
      at::Tensor& passed = result[as_index(piece.passed[i])];
      passed = passed.defined() ? passed + gradients[i] : std::move(gradients[i]);
    } else if (piece.roots[i].is_valid()) {
      roots.push_back(std::move(piece.roots[i]));
      root_gradients.push_back(std::move(gradients[i]));
    }
  }
  gradients.clear();
  if (!roots.empty())
    torch::autograd::Engine::get_default_engine().execute(roots, root_gradients, /*keep_graph=*/false, /*create_graph=*/false,
                                                          /*accumulate_grad=*/true);
  for (std::size_t i = 0; i < result.size(); ++i)
    if (piece.inputs[i].requires_grad() && !result[i].defined()) result[i] = std::exchange(piece.inputs[i].mutable_grad(), {});
  return result;
}

}  // namespace mptune::profiler
