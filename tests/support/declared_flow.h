#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <map>
#include <set>

#include "profiler/base/index.h"
#include "profiler/model/layers/model.h"
#include "profiler/model/random/randomness.h"

/// Checks what Layer::flow says against what forward does.
namespace mptune::testing {

/// Runs a layer as run_layer does, but returns what forward itself returns.
inline Tensors forward_alone(const ModelLayer& layer, int index, const Tensors& inputs, const RunContext& context) {
  profiler::DrawScope draws({context.seed, context.step, index, layer.name, context.first_sample, context.samples});
  RunContext drawing = context;
  drawing.draws = &draws;
  return layer.layer->forward(inputs, drawing);
}

/// Detached: a layer's inputs as a stage has them.
inline Tensors leaves_of(const Tensors& tensors, bool gradients) {
  Tensors leaves;
  for (const at::Tensor& tensor : tensors)
    leaves.push_back(tensor.detach().requires_grad_(gradients && at::isFloatingType(tensor.scalar_type())));
  return leaves;
}

/// True if the outputs that a layer with this flow computes are equal.
inline bool equal_computed(const TensorFlow& flow, const Tensors& a, const Tensors& b) {
  bool equal = true;
  for (std::size_t i = 0; i < flow.passes.size(); ++i) equal = equal && (flow.passes[i] >= 0 || at::equal(a.at(i), b.at(i)));
  return equal;
}

/// How many terms autograd adds up for each leaf, of what the outputs at these places need.
inline std::map<const c10::TensorImpl*, int> gradient_terms(const Tensors& outputs) {
  std::map<const c10::TensorImpl*, int> terms;
  std::set<const torch::autograd::Node*> seen;
  std::vector<const torch::autograd::Node*> open;
  for (const at::Tensor& output : outputs)
    if (output.defined() && output.grad_fn()) open.push_back(output.grad_fn().get());
  while (!open.empty()) {
    const torch::autograd::Node* node = open.back();
    open.pop_back();
    if (!seen.insert(node).second) continue;
    for (const torch::autograd::Edge& edge : node->next_edges()) {
      if (const auto* leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(edge.function.get()))
        ++terms[leaf->variable.unsafeGetTensorImpl()];
      else if (edge.is_valid())
        open.push_back(edge.function.get());
    }
  }
  return terms;
}

/// Inputs that are not read may be undefined, and are the very tensors that are passed on.
inline void expect_true_flow(const ModelLayer& layer, int index, const Tensors& inputs, const RunContext& context, bool gradients) {
  SCOPED_TRACE(layer.name + (gradients ? " with gradients" : ""));
  const at::AutoGradMode mode(gradients);
  const TensorFlow flow = layer.layer->flow().value();
  const Tensors whole = leaves_of(inputs, gradients);
  const Tensors returned = forward_alone(layer, index, whole, context);
  ASSERT_EQ(returned.size(), flow.passes.size());
  for (std::size_t i = 0; i < returned.size(); ++i)
    EXPECT_TRUE(flow.passes[i] < 0 || at::equal(returned[i], whole.at(as_index(flow.passes[i])))) << i;
  const auto terms = gradient_terms(returned);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const auto found = terms.find(whole[i].unsafeGetTensorImpl());
    const bool more = found != terms.end() && flow.reads[i] < found->second && flow.reads[i] < TensorFlow::kSeveral;
    EXPECT_FALSE(more) << "input " << i << " is read by more operators than said";
  }
  Tensors some = whole;
  for (std::size_t i = 0; i < some.size(); ++i)
    if (flow.reads.at(i) == 0) some[i] = at::Tensor();
  const Tensors without = run_layer(layer, index, some, context);
  ASSERT_EQ(without.size(), returned.size());
  EXPECT_TRUE(equal_computed(flow, without, returned));
  for (std::size_t i = 0; i < returned.size(); ++i) {
    const int input = flow.passes[i];
    if (input < 0)
      EXPECT_EQ(without[i].requires_grad(), returned[i].requires_grad()) << i;
    else
      EXPECT_TRUE(without[i].is_same(some[as_index(input)])) << i;
  }
}

/// Every input that the layer says it reads changes what it computes. Requires: samples that differ in every input.
inline void expect_read(const ModelLayer& layer, int index, const Tensors& inputs, const RunContext& context) {
  const at::NoGradGuard no_gradients;
  const TensorFlow flow = layer.layer->flow().value();
  const Tensors returned = run_layer(layer, index, inputs, context);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (flow.reads.at(i) == 0) continue;
    Tensors others = inputs;
    others[i] = inputs[i].roll(1, 0);
    ASSERT_FALSE(at::equal(others[i], inputs[i])) << layer.name << " " << i;
    EXPECT_FALSE(equal_computed(flow, run_layer(layer, index, others, context), returned)) << layer.name << " " << i;
  }
}

}  // namespace mptune::testing
