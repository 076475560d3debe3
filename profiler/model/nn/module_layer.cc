#include "profiler/model/nn/module_layer.h"

#include <torch/nn.h>

#include <mutex>
#include <utility>

#include "profiler/base/error.h"
#include "profiler/model/layers/input_guard.h"
#include "profiler/model/layers/written_buffers.h"
#include "profiler/model/nn/batch_norms.h"

namespace mptune::profiler {
namespace {

std::string joined(const std::string& prefix, const std::string& path) {
  return prefix.empty() || path.empty() ? prefix + path : prefix + "." + path;
}

// Clones a module without changing the state of LibTorch's random generator: torch::nn modules draw initial weights when they are cloned.
std::shared_ptr<torch::nn::Module> clone_quietly(const torch::nn::Module& module) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  auto generator = at::detail::getDefaultCPUGenerator();
  at::Tensor state;
  {
    const std::lock_guard generator_lock(generator.mutex());
    state = generator.get_state();
  }
  auto copy = module.clone();
  const std::lock_guard generator_lock(generator.mutex());
  generator.set_state(state);
  return copy;
}

/// Puts the module and everything that it holds into evaluation mode while it lives.
class EvaluationMode {
 public:
  explicit EvaluationMode(torch::nn::Module& root) : modules_(root.modules()) {
    for (const auto& module : modules_) training_.push_back(module->is_training());
    root.eval();
  }
  ~EvaluationMode() {
    // From the root on: train() sets all below it, too.
    for (std::size_t i = 0; i < modules_.size(); ++i) modules_[i]->train(training_[i]);
  }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  std::vector<std::shared_ptr<torch::nn::Module>> modules_;
  std::vector<bool> training_;
};

class ModuleLayer final : public Layer {
 public:
  struct Names {
    std::vector<std::string> parameters;
    std::vector<std::string> buffers;
  };

  ModuleLayer(std::string kind, std::shared_ptr<torch::nn::Module> module, std::shared_ptr<const Names> names, ModuleForward forward,
              std::optional<TensorFlow> flow)
      : kind_(std::move(kind)),
        module_(std::move(module)),
        names_(std::move(names)),
        forward_(std::move(forward)),
        flow_(std::move(flow)),
        norms_(*module_),
        state_(buffers()) {}

  Tensors forward(const Tensors& inputs, const RunContext& context) override {
    const auto once = [&](const Tensors& given) {
      written_.restart();
      const auto call = [this](const Tensors& on) { return forward_(*module_, on); };
      return context.recomputing || context.evaluating ? norms_.skip(given, call) : norms_.record(given, call);
    };
    std::optional<EvaluationMode> evaluation;
    if (context.evaluating) evaluation.emplace(*module_);
    return written_.run(state_, context, [&] { return guard_.run(inputs, context, once); });
  }

  std::optional<TensorFlow> flow() const override { return flow_; }

  std::vector<NamedTensor> parameters() const override {
    std::vector<NamedTensor> result;
    const auto tensors = module_->parameters();
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (tensors[i].requires_grad()) result.push_back({names_->parameters.at(i), tensors[i]});
    return result;
  }

  std::vector<NamedTensor> buffers() const override {
    std::vector<NamedTensor> result;
    const auto parameters = module_->parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i)
      if (!parameters[i].requires_grad()) result.push_back({names_->parameters.at(i), parameters[i]});
    const auto tensors = module_->buffers();
    for (std::size_t i = 0; i < tensors.size(); ++i) result.push_back({names_->buffers.at(i), tensors[i]});
    return result;
  }

  std::unique_ptr<Layer> clone() const override {
    auto copy = clone_quietly(*module_);
    const auto from = module_->parameters();
    auto to = copy->parameters();
    for (std::size_t i = 0; i < from.size(); ++i) to.at(i).set_requires_grad(from[i].requires_grad());
    auto result = std::make_unique<ModuleLayer>(kind_, std::move(copy), names_, forward_, flow_);
    result->guard_ = guard_;
    return result;
  }

  std::string kind() const override { return kind_; }
  bool has_batch_statistics() const override { return norms_.any(); }
  std::string written_buffer() const override { return written_.name(); }
  std::vector<BatchStatistics> take_statistics() override { return norms_.take(); }
  void commit_statistics(const std::vector<std::vector<BatchStatistics>>& by_norm) override { norms_.commit(by_norm); }

 private:
  std::string kind_;
  std::shared_ptr<torch::nn::Module> module_;
  std::shared_ptr<const Names> names_;
  ModuleForward forward_;
  std::optional<TensorFlow> flow_;
  BatchNorms norms_;
  const std::vector<NamedTensor> state_;  ///< what buffers() returns
  InputGuard guard_;
  WrittenBuffers written_;
};

}  // namespace

std::unique_ptr<Layer> make_module_layer(std::string kind, std::shared_ptr<torch::nn::Module> module, const std::string& prefix,
                                         ModuleForward forward, std::optional<TensorFlow> flow) {
  if (module == nullptr || forward == nullptr)
    throw Error("a layer needs a module and a forward", prefix.empty() ? kind : prefix, "pass both to mptune::layer");
  auto names = std::make_shared<ModuleLayer::Names>();
  for (const auto& item : module->named_parameters()) names->parameters.push_back(joined(prefix, item.key()));
  for (const auto& item : module->named_buffers()) names->buffers.push_back(joined(prefix, item.key()));
  return std::make_unique<ModuleLayer>(std::move(kind), std::move(module), std::move(names), std::move(forward), std::move(flow));
}

}  // namespace mptune::profiler
