#include "tuner/runtime/training/optimizer_state.h"

#include <ATen/ATen.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <memory>
#include <utility>

#include "profiler/base/error.h"

namespace mptune {
namespace {

using Entries = std::map<std::string, at::Tensor>;

void put(Entries& entries, const char* name, const at::Tensor& tensor) {
  if (tensor.defined()) entries[name] = tensor.detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true);
}

Entries entries_of(const torch::optim::SGDParamState& state) {
  Entries entries;
  put(entries, "momentum_buffer", state.momentum_buffer());
  return entries;
}

template <class AdamState>
Entries entries_of(const AdamState& state) {
  Entries entries;
  put(entries, "step", at::scalar_tensor(state.step(), at::kLong));
  put(entries, "exp_avg", state.exp_avg());
  put(entries, "exp_avg_sq", state.exp_avg_sq());
  put(entries, "max_exp_avg_sq", state.max_exp_avg_sq());
  return entries;
}

/// Takes entries one by one; entries that are left belong to another optimizer.
class Given {
 public:
  Given(const NamedTensor& parameter, Entries entries) : parameter_(parameter), entries_(std::move(entries)) {}

  /// Returns the entry with the layout and device of the parameter; undefined where there is none.
  at::Tensor like_parameter(const char* name) {
    const auto found = entries_.extract(name);
    if (!found) return {};
    const at::Tensor& tensor = found.mapped();
    if (tensor.sizes() != parameter_.tensor.sizes()) refuse(std::string("'") + name + "' has another shape than the parameter");
    return at::empty_like(parameter_.tensor, parameter_.tensor.options().requires_grad(false)).copy_(tensor);
  }
  std::int64_t number(const char* name) {
    const auto found = entries_.extract(name);
    if (!found) refuse(std::string("'") + name + "' is missing");
    if (found.mapped().numel() != 1) refuse(std::string("'") + name + "' is not one number");
    return found.mapped().item<std::int64_t>();
  }
  void require_all_taken() const {
    if (!entries_.empty()) refuse("this optimizer has no '" + entries_.begin()->first + "'");
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error("the optimizer's state does not fit: " + what, parameter_.name, "go on with the optimizer and the model of the first run");
  }
  const NamedTensor& parameter_;
  Entries entries_;
};

void set_entries(torch::optim::SGDParamState& state, Given& given) {
  state.momentum_buffer(given.like_parameter("momentum_buffer"));
}

template <class AdamState>
void set_entries(AdamState& state, Given& given) {
  state.step(given.number("step"));
  state.exp_avg(given.like_parameter("exp_avg"));
  state.exp_avg_sq(given.like_parameter("exp_avg_sq"));
  state.max_exp_avg_sq(given.like_parameter("max_exp_avg_sq"));
}

/// Calls `visit` with the type of the state that the optimizer keeps per parameter.
template <class Visit>
void visit_kind(const torch::optim::Optimizer& optimizer, const Visit& visit) {
  if (dynamic_cast<const torch::optim::SGD*>(&optimizer) != nullptr) return visit(torch::optim::SGDParamState());
  if (dynamic_cast<const torch::optim::AdamW*>(&optimizer) != nullptr) return visit(torch::optim::AdamWParamState());
  if (dynamic_cast<const torch::optim::Adam*>(&optimizer) != nullptr) return visit(torch::optim::AdamParamState());
  throw Error("the state of this optimizer can't be saved", "optimizer", "use SGD, Adam or AdamW");
}

}  // namespace

OptimizerState optimizer_state(const torch::optim::Optimizer& optimizer, const std::vector<NamedTensor>& parameters) {
  OptimizerState all;
  visit_kind(optimizer, [&]<class State>(const State&) {
    for (const NamedTensor& parameter : parameters) {
      const auto found = optimizer.state().find(parameter.tensor.unsafeGetTensorImpl());
      if (found != optimizer.state().end()) all[parameter.name] = entries_of(static_cast<const State&>(*found->second));
    }
  });
  return all;
}

void set_optimizer_state(torch::optim::Optimizer& optimizer, const std::vector<NamedTensor>& parameters, const OptimizerState& state) {
  const at::NoGradGuard no_gradients;
  visit_kind(optimizer, [&]<class State>(const State&) {
    for (const NamedTensor& parameter : parameters) {
      optimizer.state().erase(parameter.tensor.unsafeGetTensorImpl());
      const auto found = state.find(parameter.name);
      if (found == state.end()) continue;
      auto own = std::make_unique<State>();
      Given given(parameter, found->second);
      set_entries(*own, given);
      given.require_all_taken();
      optimizer.state()[parameter.tensor.unsafeGetTensorImpl()] = std::move(own);
    }
  });
}

}  // namespace mptune
