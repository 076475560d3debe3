#include "mptune/profiler/model/module_layer.h"

#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <utility>

#include "mptune/profiler/model/batch_norms.h"
#include "mptune/profiler/model/randomness.h"
#include "mptune/profiler/trace/error.h"

namespace mptune {
namespace {

std::string joined(const std::string& prefix, const std::string& path) {
  return prefix.empty() || path.empty() ? prefix + path : prefix + "." + path;
}

// torch::nn modules draw initial weights while they are cloned, only to overwrite them; the program's random numbers go on as if they had
// not.
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

std::vector<std::uint32_t> versions_of(const Tensors& tensors) {
  std::vector<std::uint32_t> versions;
  versions.reserve(tensors.size());
  for (const auto& tensor : tensors) {
    versions.push_back(tensor.is_inference() ? 0 : static_cast<std::uint32_t>(tensor._version()));
  }
  return versions;
}

Tensors cloned(const Tensors& tensors) {
  Tensors copies;
  copies.reserve(tensors.size());
  for (const auto& tensor : tensors) {
    copies.push_back(tensor.clone());
  }
  return copies;
}

// Autograd refuses to write to leaves that need a gradient, and minds writes to what others computed. Only inputs without gradients could
// be overwritten unseen.
bool autograd_guards(const Tensors& inputs) {
  return at::GradMode::is_enabled() && std::ranges::all_of(inputs, [](const at::Tensor& input) { return input.requires_grad(); });
}

class ModuleLayer final : public Layer {
 public:
  struct Names {
    std::vector<std::string> parameters;
    std::vector<std::string> buffers;
  };

  ModuleLayer(std::string kind, std::shared_ptr<torch::nn::Module> module, std::shared_ptr<const Names> names, ModuleForward forward)
      : kind_(std::move(kind)), module_(std::move(module)), names_(std::move(names)), forward_(std::move(forward)), norms_(*module_) {}

  Tensors forward(const Tensors& inputs, const RunContext& context) override {
    const auto run = [&](const Tensors& on) {
      DrawScope::restart();
      const auto call = [this](const Tensors& given) { return forward_(*module_, given); };
      return context.recomputing ? norms_.skip(on, call) : norms_.record(on, call);
    };
    if (writes_input_ == WritesInput::no) return run(inputs);
    return writes_input_ == WritesInput::yes ? run(cloned(inputs)) : watched(inputs, run);
  }

  std::vector<NamedTensor> parameters() const override {
    std::vector<NamedTensor> result;
    const auto tensors = module_->parameters();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].requires_grad()) {
        result.push_back({names_->parameters.at(i), tensors[i]});
      }
    }
    return result;
  }

  std::vector<NamedTensor> buffers() const override {
    std::vector<NamedTensor> result;
    const auto parameters = module_->parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (!parameters[i].requires_grad()) {
        result.push_back({names_->parameters.at(i), parameters[i]});
      }
    }
    const auto tensors = module_->buffers();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      result.push_back({names_->buffers.at(i), tensors[i]});
    }
    return result;
  }

  std::unique_ptr<Layer> clone() const override {
    auto copy = clone_quietly(*module_);
    const auto from = module_->parameters();
    auto to = copy->parameters();
    for (std::size_t i = 0; i < from.size(); ++i) {
      to.at(i).set_requires_grad(from[i].requires_grad());
    }
    auto result = std::make_unique<ModuleLayer>(kind_, std::move(copy), names_, forward_);
    result->writes_input_ = writes_input_;
    return result;
  }

  std::string kind() const override { return kind_; }
  bool has_batch_statistics() const override { return norms_.any(); }
  std::vector<BatchStatistics> take_statistics() override { return norms_.take(); }
  void commit_statistics(const std::vector<std::vector<BatchStatistics>>& by_norm) override { norms_.commit(by_norm); }

 private:
  enum class WritesInput { unknown, no, yes };

  // The first forward looks whether the input was written to; only such modules go on paying for copies. An input without a gradient is
  // given under a version counter of its own and gets its values back if they were overwritten: nothing is kept twice for the backward.
  Tensors watched(const Tensors& inputs, const std::function<Tensors(const Tensors&)>& run) {
    const bool guarded = autograd_guards(inputs);
    Tensors given, spare;
    for (const auto& input : inputs) {
      const bool own_counter = !guarded && !input.requires_grad();
      given.push_back(guarded ? input : own_counter ? input.variable_data() : input.clone());
      spare.push_back(own_counter ? input.clone() : at::Tensor());
    }
    const auto before = versions_of(given);
    try {
      Tensors outputs = run(given);
      const bool written = versions_of(given) != before;
      if (guarded || !written) {
        writes_input_ = written ? WritesInput::yes : WritesInput::no;
        return outputs;
      }
    } catch (const c10::OutOfMemoryError&) {
      throw;
    } catch (const c10::Error&) {
      // A write that autograd refused, or a mistake that copies do not heal either.
    }
    for (std::size_t i = 0; i < spare.size(); ++i) {
      if (spare[i].defined()) given[i].copy_(spare[i]);
    }
    Tensors outputs = run(cloned(inputs));
    writes_input_ = WritesInput::yes;
    return outputs;
  }

  std::string kind_;
  std::shared_ptr<torch::nn::Module> module_;
  std::shared_ptr<const Names> names_;
  ModuleForward forward_;
  BatchNorms norms_;
  WritesInput writes_input_ = WritesInput::unknown;
};

}  // namespace

std::unique_ptr<Layer> make_module_layer(std::string kind, std::shared_ptr<torch::nn::Module> module, const std::string& prefix,
                                         ModuleForward forward) {
  if (module == nullptr || forward == nullptr) {
    throw Error("a layer needs a module and a forward", prefix.empty() ? kind : prefix, "pass both to mptune::layer");
  }
  auto names = std::make_shared<ModuleLayer::Names>();
  for (const auto& item : module->named_parameters()) {
    names->parameters.push_back(joined(prefix, item.key()));
  }
  for (const auto& item : module->named_buffers()) {
    names->buffers.push_back(joined(prefix, item.key()));
  }
  return std::make_unique<ModuleLayer>(std::move(kind), std::move(module), std::move(names), std::move(forward));
}

}  // namespace mptune
