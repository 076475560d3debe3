#include "profiler/model/script/norms.h"

#include <ATen/ATen.h>
#include <ATen/ops/batch_norm_native.h>

#include <torch/csrc/jit/passes/inliner.h>
#include <torch/library.h>

#include <algorithm>
#include <utility>

#include "profiler/base/error.h"

namespace mptune::profiler {
namespace {

// Redirects aten::batch_norm in this thread while a scope is open.
struct Scope {
  struct Seen {
    const at::TensorImpl* running_mean = nullptr;
    BatchStatistics statistics;
    double momentum = 0;
    int calls = 0;
  };
  std::vector<Seen> norms;
  bool recording = true;
  bool evaluating = false;
};
thread_local Scope* scope = nullptr;

using OptionalTensor = std::optional<at::Tensor>;

at::Tensor batch_norm(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias, const OptionalTensor& mean,
                      const OptionalTensor& variance, bool training, double momentum, double epsilon, bool cudnn) {
  Scope::Seen* seen = nullptr;
  if (scope != nullptr && training && mean && mean->defined()) {
    const auto found = std::ranges::find(scope->norms, mean->unsafeGetTensorImpl(), &Scope::Seen::running_mean);
    seen = found == scope->norms.end() ? nullptr : &*found;
  }
  if (seen == nullptr) return at::native::batch_norm(input, weight, bias, mean, variance, training, momentum, epsilon, cudnn);
  if (scope->evaluating) return at::native::batch_norm(input, weight, bias, mean, variance, false, momentum, epsilon, cudnn);
  if (!scope->recording) return at::native::batch_norm(input, weight, bias, {}, {}, training, momentum, epsilon, cudnn);
  seen->statistics = {at::zeros_like(*mean), at::zeros_like(*mean), input.numel() / std::max<std::int64_t>(1, input.size(1))};
  seen->momentum = momentum;
  ++seen->calls;
  return at::native::batch_norm(input, weight, bias, seen->statistics.mean, seen->statistics.variance, training, 1.0, epsilon, cudnn);
}

// Registered at first use, not by a static object: a plug-in has a copy of this code, and an operator has one kernel per process.
void take_over_batch_norm() {
  static const bool taken = [] {
    for (const auto key : {c10::DispatchKey::AutogradCPU, c10::DispatchKey::AutogradCUDA}) {
      // Never destroyed: operators outlive every static object.
      auto* library = new torch::Library(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
      library->impl("batch_norm", batch_norm);
    }
    return true;
  }();
  (void)taken;
}

class OpenScope {
 public:
  explicit OpenScope(Scope& target) : outer_(std::exchange(scope, &target)) {}
  ~OpenScope() { scope = outer_; }
  OpenScope(const OpenScope&) = delete;
  OpenScope& operator=(const OpenScope&) = delete;

 private:
  Scope* outer_;
};

bool calls(const torch::jit::Block& block, c10::Symbol operation) {
  return std::ranges::any_of(block.nodes(), [&](const torch::jit::Node* node) {
    return node->kind() == operation ||
           std::ranges::any_of(node->blocks(), [&](const torch::jit::Block* inner) { return calls(*inner, operation); });
  });
}

at::Tensor tensor_attribute(const torch::jit::Module& module, const std::string& name) {
  const auto value = module.hasattr(name) ? module.attr(name) : c10::IValue();
  return value.isTensor() ? value.toTensor() : at::Tensor();
}

// Returns the momentum until a forward has shown it; nullopt for a mean over all batches.
std::optional<double> stated_momentum(const torch::jit::Module& module) {
  constexpr double kUsual = 0.1;
  const auto slot = module.type()->findConstantSlot("momentum");
  const auto value = slot ? module.type()->getConstant(*slot) : c10::IValue(kUsual);
  return value.isDouble() ? std::optional(value.toDouble()) : std::nullopt;
}

}  // namespace

// Gives the forward copies of the batch counters to increment. commit() increments the module's own once per batch.
class ScriptNorms::CountersApart {
 public:
  explicit CountersApart(std::vector<Norm>& norms) : norms_(norms) {
    for (auto& norm : norms_) set(norm, norm.running.tracked.defined() ? norm.running.tracked.clone() : at::Tensor());
  }
  ~CountersApart() {
    for (auto& norm : norms_) set(norm, norm.running.tracked);
  }
  CountersApart(const CountersApart&) = delete;
  CountersApart& operator=(const CountersApart&) = delete;

 private:
  static void set(Norm& norm, const at::Tensor& counter) {
    if (counter.defined()) norm.module.setattr("num_batches_tracked", counter);
  }
  std::vector<Norm>& norms_;
};

ScriptNorms::ScriptNorms(const torch::jit::Module& root) {
  const auto graph = root.get_method("forward").graph()->copy();
  torch::jit::Inline(*graph);
  any_ = calls(*graph->block(), c10::Symbol::fromQualString("aten::batch_norm"));
  if (!any_) return;
  take_over_batch_norm();
  for (const auto& item : root.named_modules()) {
    const auto mean = tensor_attribute(item.value, "running_mean");
    const auto variance = tensor_attribute(item.value, "running_var");
    if (mean.defined() && variance.defined()) {
      norms_.push_back(
          {item.name, item.value, {mean, variance, tensor_attribute(item.value, "num_batches_tracked"), stated_momentum(item.value)}});
    }
  }
}

Tensors ScriptNorms::run(const Tensors& inputs, const std::function<Tensors(const Tensors&)>& forward, const RunContext& context) {
  if (norms_.empty()) return forward(inputs);
  Scope seen;
  seen.evaluating = context.evaluating;
  seen.recording = !context.recomputing && !context.evaluating;
  for (const auto& norm : norms_) seen.norms.push_back({norm.running.mean.unsafeGetTensorImpl(), {}, 0, 0});
  Tensors outputs;
  {
    const CountersApart counters(norms_);
    const OpenScope open(seen);
    outputs = forward(inputs);
  }
  if (!seen.recording) return outputs;
  taken_.clear();
  for (std::size_t i = 0; i < norms_.size(); ++i) {
    auto& one = seen.norms[i];
    if (one.calls > 1) {
      throw Error("the batch norm is called " + std::to_string(one.calls) + " times in one forward",
                  norms_[i].name.empty() ? "batch norm" : norms_[i].name,
                  "give every call a batch norm of its own, so that its running statistics can be committed once per batch");
    }
    if (one.calls == 1 && norms_[i].running.momentum) norms_[i].running.momentum = one.momentum;
    taken_.push_back(std::move(one.statistics));
  }
  return outputs;
}

void ScriptNorms::commit(const std::vector<std::vector<BatchStatistics>>& by_norm) {
  if (by_norm.size() != norms_.size()) {
    throw Error("statistics of " + std::to_string(by_norm.size()) + " batch norms for a layer with " + std::to_string(norms_.size()),
                "commit_statistics", "pass what take_statistics gave, one entry per batch norm", ExitCode::internal);
  }
  for (std::size_t i = 0; i < norms_.size(); ++i) commit_batch(norms_[i].running, by_norm[i]);
}

}  // namespace mptune::profiler
