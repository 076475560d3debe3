#include "profiler/model/nn/batch_norms.h"

#include <ATen/record_function.h>

#include <torch/nn.h>

#include <algorithm>

#include "profiler/base/error.h"
#include "profiler/base/index.h"

namespace mptune::profiler {
namespace {

constexpr std::size_t kMaxKnownShapes = 32;

std::vector<std::int64_t> sizes_of(const Tensors& inputs) {
  std::vector<std::int64_t> sizes;
  for (const auto& input : inputs) {
    sizes.push_back(input.dim());
    sizes.insert(sizes.end(), input.sizes().begin(), input.sizes().end());
  }
  return sizes;
}

// Filled in by the callback below. Callbacks are plain functions, hence the thread-local pointer.
struct Observation {
  std::vector<const void*> means;
  std::vector<std::int64_t> counts;
  std::vector<int> calls;
};
thread_local Observation* observation = nullptr;

std::unique_ptr<at::ObserverContext> on_call(const at::RecordFunction& function) {
  if (observation == nullptr || std::string_view(function.name()) != "aten::batch_norm") return nullptr;
  const auto inputs = function.inputs();
  if (inputs.size() < 5 || !inputs[0].isTensor() || !inputs[3].isTensor() || !inputs[3].toTensor().defined()) return nullptr;
  const auto found = std::find(observation->means.begin(), observation->means.end(), inputs[3].toTensor().unsafeGetTensorImpl());
  if (found != observation->means.end()) {
    const auto norm = as_index(found - observation->means.begin());
    const auto& input = inputs[0].toTensor();
    observation->counts[norm] = input.numel() / std::max<std::int64_t>(1, input.size(1));
    ++observation->calls[norm];
  }
  return nullptr;
}

class Observer {
 public:
  explicit Observer(Observation& target) {
    observation = &target;
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(on_call).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
  }
  ~Observer() {
    at::removeCallback(handle_);
    observation = nullptr;
  }
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

 private:
  at::RecordFunctionGuard enabled_;
  at::CallbackHandle handle_ = 0;
};

}  // namespace

// Replaces the norms' running statistics during a forward. The module's registered buffers are not touched.
class BatchNorms::Swap {
 public:
  Swap(std::vector<Norm>& norms, bool recording) {
    saved_.reserve(norms.size());
    for (auto& norm : norms) {
      if (norm.module->is_training()) {
        auto fresh_mean = recording ? at::zeros_like(*norm.mean) : at::Tensor();
        auto fresh_variance = recording ? at::zeros_like(*norm.variance) : at::Tensor();
        saved_.push_back({&norm, std::exchange(*norm.mean, std::move(fresh_mean)), std::exchange(*norm.variance, std::move(fresh_variance)),
                          std::exchange(*norm.tracked, at::Tensor()), std::exchange(*norm.momentum, 1.0)});
      }
    }
  }
  ~Swap() {
    for (auto& saved : saved_) {
      *saved.norm->mean = std::move(saved.mean);
      *saved.norm->variance = std::move(saved.variance);
      *saved.norm->tracked = std::move(saved.tracked);
      *saved.norm->momentum = saved.momentum;
    }
  }
  Swap(const Swap&) = delete;
  Swap& operator=(const Swap&) = delete;

 private:
  struct Saved {
    Norm* norm;
    at::Tensor mean;
    at::Tensor variance;
    at::Tensor tracked;
    std::optional<double> momentum;
  };
  std::vector<Saved> saved_;
};

template <class Impl>
void BatchNorms::add(const std::string& name, torch::nn::Module& module) {
  auto* norm = dynamic_cast<Impl*>(&module);
  if (norm == nullptr) return;
  any_ = true;
  if (norm->running_mean.defined() && norm->running_var.defined())
    norms_.push_back({name, norm, &norm->running_mean, &norm->running_var, &norm->num_batches_tracked, &norm->options.momentum()});
}

BatchNorms::BatchNorms(torch::nn::Module& root) {
  for (const auto& item : root.named_modules()) {
    add<torch::nn::BatchNorm1dImpl>(item.key(), *item.value());
    add<torch::nn::BatchNorm2dImpl>(item.key(), *item.value());
    add<torch::nn::BatchNorm3dImpl>(item.key(), *item.value());
  }
}

const BatchNorms::Counts* BatchNorms::known_counts(const std::vector<std::int64_t>& sizes) const {
  const auto found = std::find_if(counts_.begin(), counts_.end(), [&](const Counts& counts) { return counts.input_sizes == sizes; });
  return found == counts_.end() ? nullptr : &*found;
}

Tensors BatchNorms::observe(const Tensors& inputs, const std::function<Tensors(const Tensors&)>& forward, Counts& counts) {
  Observation seen;
  for (const auto& norm : norms_) seen.means.push_back(norm.mean->unsafeGetTensorImpl());
  seen.counts.assign(norms_.size(), 0);
  seen.calls.assign(norms_.size(), 0);
  Tensors outputs;
  {
    const Observer observer(seen);
    outputs = forward(inputs);
  }
  for (std::size_t i = 0; i < norms_.size(); ++i) {
    if (seen.calls[i] > 1) {
      throw Error("the batch norm is called " + std::to_string(seen.calls[i]) + " times in one forward",
                  norms_[i].name.empty() ? "batch norm" : norms_[i].name,
                  "give every call a batch norm of its own, so that its running statistics can be committed once per batch");
    }
  }
  counts.by_norm = std::move(seen.counts);
  return outputs;
}

Tensors BatchNorms::record(const Tensors& inputs, const std::function<Tensors(const Tensors&)>& forward) {
  if (norms_.empty()) return forward(inputs);
  taken_.clear();
  const Swap swap(norms_, /*recording=*/true);
  auto sizes = sizes_of(inputs);
  const Counts* counts = known_counts(sizes);
  Tensors outputs;
  if (counts != nullptr) {
    outputs = forward(inputs);
  } else {
    Counts fresh{std::move(sizes), {}};
    outputs = observe(inputs, forward, fresh);
    if (counts_.size() >= kMaxKnownShapes) counts_.clear();
    counts = &counts_.emplace_back(std::move(fresh));
  }
  for (std::size_t i = 0; i < norms_.size(); ++i) {
    const bool recorded = norms_[i].module->is_training() && counts->by_norm[i] > 0;
    taken_.push_back(recorded ? BatchStatistics{*norms_[i].mean, *norms_[i].variance, counts->by_norm[i]} : BatchStatistics{});
  }
  return outputs;
}

Tensors BatchNorms::skip(const Tensors& inputs, const std::function<Tensors(const Tensors&)>& forward) {
  const Swap swap(norms_, /*recording=*/false);
  return forward(inputs);
}

void BatchNorms::commit(const std::vector<std::vector<BatchStatistics>>& by_norm) {
  if (by_norm.size() != norms_.size()) {
    throw Error("statistics of " + std::to_string(by_norm.size()) + " batch norms for a layer with " + std::to_string(norms_.size()),
                "commit_statistics", "pass what take_statistics gave, one entry per batch norm", ExitCode::internal);
  }
  for (std::size_t i = 0; i < norms_.size(); ++i) {
    const auto& norm = norms_[i];
    commit_batch({*norm.mean, *norm.variance, *norm.tracked, *norm.momentum}, by_norm[i]);
  }
}

}  // namespace mptune::profiler
