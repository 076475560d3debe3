#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/generated/Functions.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <typeinfo>
#include <unordered_map>
#include <utility>
#include <vector>

namespace mptune::profiler {

/// True if the node is exactly one of these types.
template <class... Types>
bool is_any_of(const torch::autograd::Node& node) {
  return ((typeid(node) == typeid(Types)) || ...);
}

/// True for nodes between a product and its parameter that only reorder or convert the gradient.
inline bool passes_gradient_on(const torch::autograd::Node& node) {
  using namespace torch::autograd::generated;
  return is_any_of<TBackward0, TransposeBackward0, PermuteBackward0, ViewBackward0, UnsafeViewBackward0, ReshapeAliasBackward0,
                   UnsqueezeBackward0, SqueezeBackward0, SqueezeBackward1, AliasBackward0, ToCopyBackward0>(node);
}

inline bool has_hooks(torch::autograd::Node& node) {
  return !node.pre_hooks().empty() || !node.post_hooks().empty() || !node.tensor_pre_hooks().empty() || !node.retains_grad_hooks().empty();
}

/// The autograd nodes of a piece, and how many edges lead to each.
class Users {
 public:
  explicit Users(const std::vector<torch::autograd::Edge>& roots) {
    std::vector<torch::autograd::Node*> open;
    const auto reach = [&](const torch::autograd::Edge& edge) {
      if (edge.is_valid() && count_[edge.function.get()]++ == 0) open.push_back(edge.function.get());
    };
    for (const torch::autograd::Edge& root : roots) reach(root);
    while (!open.empty()) {
      torch::autograd::Node* node = open.back();
      open.pop_back();
      nodes_.push_back(node);
      for (const torch::autograd::Edge& edge : node->next_edges()) reach(edge);
    }
  }

  /// Returns all nodes, in the order in which backward runs them.
  [[nodiscard]] std::vector<torch::autograd::Node*> in_backward_order() const {
    std::vector<torch::autograd::Node*> ordered = nodes_;
    std::ranges::stable_sort(
        ordered, [](const torch::autograd::Node* a, const torch::autograd::Node* b) { return a->sequence_nr() > b->sequence_nr(); });
    return ordered;
  }
  [[nodiscard]] bool only_one(const torch::autograd::Node& node) const { return count_.at(&node) == 1; }

 private:
  std::unordered_map<const torch::autograd::Node*, int> count_;
  std::vector<torch::autograd::Node*> nodes_;
};

/// The nodes that a gradient passes from a product to the parameter that it is added to.
struct PathToParameter {
  std::vector<std::shared_ptr<torch::autograd::Node>> nodes;  ///< the last one accumulates

  /// True if the product's gradient has the parameter's form, or its transposed form.
  [[nodiscard]] bool is_short() const {
    return nodes.size() == 1 || (nodes.size() == 2 && is_any_of<torch::autograd::generated::TBackward0>(*nodes[0]));
  }
  [[nodiscard]] torch::autograd::AccumulateGrad& accumulator() const {
    return static_cast<torch::autograd::AccumulateGrad&>(*nodes.back());
  }

  void add(at::Tensor gradient) {
    // An initialiser list would copy the tensor: the accumulator takes over only a tensor that nobody else holds.
    torch::autograd::variable_list passed;
    passed.push_back(std::move(gradient));
    for (const auto& node : nodes) passed = (*node)(std::move(passed));
    nodes.clear();
  }
};

/// A tensor that the forward saved. As in the backward, reading it checks that nobody has modified it.
class Saved {
 public:
  explicit Saved(const torch::autograd::SavedVariable& variable)
      // Without detach() it would keep the graph of the layers before it alive.
      : tensor_(variable.unpack().detach()), version_(tensor_.defined() ? tensor_._version() : 0) {}

  [[nodiscard]] const at::Tensor& tensor() const { return tensor_; }
  [[nodiscard]] const at::Tensor& checked() const {
    TORCH_CHECK(tensor_._version() == version_,
                "one of the variables needed for gradient computation has been modified by an inplace operation");
    return tensor_;
  }
  void reset() { tensor_.reset(); }

 private:
  at::Tensor tensor_;
  std::int64_t version_;
};

/// Keeps the gradient of a product's output, which the backward computes.
class KeepGradient final : public torch::autograd::FunctionPreHook {
 public:
  explicit KeepGradient(std::shared_ptr<at::Tensor> kept) : kept_(std::move(kept)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& gradients) override {
    *kept_ = gradients[0];
    return gradients;
  }

 private:
  std::shared_ptr<at::Tensor> kept_;
};

}  // namespace mptune::profiler
