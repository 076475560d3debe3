#include "profiler/model/script/layer.h"

#include <c10/util/Exception.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/runtime/interpreter.h>
#include <torch/types.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <utility>

#include "profiler/base/error.h"
#include "profiler/model/layers/input_guard.h"
#include "profiler/model/layers/written_buffers.h"
#include "profiler/model/script/norms.h"

namespace mptune::profiler {
namespace {

constexpr const char* kTensorsOnly = "let the layer take and return tensors, or tuples or lists of tensors";

bool is_tensor(const c10::TypePtr& type) {
  return type->isSubtypeOf(*c10::TensorType::get()) || type->isSubtypeOf(*c10::OptionalType::ofTensor());
}

// Returns the number of tensors in a value of this type; nullopt for other types.
std::optional<int> tensors_in(const c10::TypePtr& type) {
  if (is_tensor(type)) return 1;
  if (const auto list = type->cast<c10::ListType>(); list != nullptr && is_tensor(list->getElementType())) return ScriptArity::kAny;
  if (const auto tuple = type->cast<c10::TupleType>(); tuple != nullptr && std::ranges::all_of(tuple->elements(), is_tensor))
    return static_cast<int>(tuple->elements().size());
  return std::nullopt;
}

std::vector<c10::Argument> required_arguments(const torch::jit::Module& module) {
  std::vector<c10::Argument> result;
  const auto& all = module.get_method("forward").function().getSchema().arguments();
  std::copy_if(all.begin() + 1, all.end(), std::back_inserter(result), [](const c10::Argument& one) { return !one.default_value(); });
  return result;
}

// Lets exceptions pass through LibTorch's interpreter while a layer runs, so that out of memory keeps its type: by default the interpreter
// converts every exception to a text. The switch is process-wide; the last running layer resets it.
class ExceptionsPass {
 public:
  ExceptionsPass() {
    const std::lock_guard lock(mutex_);
    if (running_++ == 0) before_ = std::exchange(FLAGS_torch_jit_enable_rethrow_caught_exception, true);
  }
  ~ExceptionsPass() {
    const std::lock_guard lock(mutex_);
    if (--running_ == 0) FLAGS_torch_jit_enable_rethrow_caught_exception = before_;
  }
  ExceptionsPass(const ExceptionsPass&) = delete;
  ExceptionsPass& operator=(const ExceptionsPass&) = delete;

 private:
  static inline std::mutex mutex_;
  static inline int running_ = 0;
  static inline bool before_ = false;
};

/// Drops what a script warns of, which may be any text.
class NoWarnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& /*warning*/) override {}
};

/// Puts the module and everything that it holds into evaluation mode while it lives, except for traced modules.
class EvaluationMode {
 public:
  explicit EvaluationMode(const torch::jit::Module& root) {
    for (const torch::jit::Module& module : root.modules())
      if (module.hasattr(kTraining) && module.attr(kTraining).isBool() && module.attr(kTraining).toBool()) set(module, false);
  }
  ~EvaluationMode() {
    for (torch::jit::Module& module : changed_) module.setattr(kTraining, true);
  }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  static constexpr const char* kTraining = "training";
  void set(torch::jit::Module module, bool training) {
    module.setattr(kTraining, training);
    changed_.push_back(std::move(module));
  }
  std::vector<torch::jit::Module> changed_;
};

class ScriptLayer final : public Layer {
 public:
  ScriptLayer(torch::jit::Module module, std::string name)
      : name_(std::move(name)), kind_(script_kind(module)), module_(std::move(module)), norms_(module_) {
    const auto arguments = required_arguments(module_);
    packs_ = arguments.size() == 1 && !is_tensor(arguments[0].type());
    packs_list_ = packs_ && arguments[0].type()->cast<c10::ListType>() != nullptr;
    const auto full = [&](const std::string& path) { return name_.empty() ? path : name_ + "." + path; };
    for (const auto& item : module_.named_parameters())
      (item.value.requires_grad() ? parameters_ : buffers_).push_back({full(item.name), item.value});
    for (const auto& item : module_.named_buffers()) buffers_.push_back({full(item.name), item.value});
  }

  Tensors forward(const Tensors& inputs, const RunContext& context) override {
    const auto once = [&](const Tensors& given) {
      written_.restart();
      return norms_.run(
          given, [this](const Tensors& on) { return call(on); }, context);
    };
    std::optional<EvaluationMode> evaluation;
    if (context.evaluating) evaluation.emplace(module_);
    return written_.run(buffers_, context, [&] { return guard_.run(inputs, context, once); });
  }

  std::vector<NamedTensor> parameters() const override { return parameters_; }
  std::vector<NamedTensor> buffers() const override { return buffers_; }

  std::unique_ptr<Layer> clone() const override {
    const at::NoGradGuard no_gradients;
    auto copy = module_.deepcopy();
    const auto from = module_.parameters();
    auto to = copy.parameters().begin();
    for (const auto& parameter : from) {
      (*to).set_requires_grad(parameter.requires_grad());
      ++to;
    }
    auto result = std::make_unique<ScriptLayer>(std::move(copy), name_);
    result->guard_ = guard_;
    return result;
  }

  std::string kind() const override { return kind_; }
  bool has_batch_statistics() const override { return norms_.any(); }
  std::string written_buffer() const override { return written_.name(); }
  std::vector<BatchStatistics> take_statistics() override { return norms_.take(); }
  void commit_statistics(const std::vector<std::vector<BatchStatistics>>& by_norm) override { norms_.commit(by_norm); }

 private:
  std::vector<c10::IValue> packed(const Tensors& inputs) const {
    if (packs_list_) return {c10::IValue(c10::List<at::Tensor>(inputs))};
    std::vector<c10::IValue> values(inputs.begin(), inputs.end());
    return packs_ ? std::vector<c10::IValue>{c10::ivalue::Tuple::create(std::move(values))} : values;
  }

  Tensors unpacked(const c10::IValue& value) const {
    if (value.isTensor()) return {value.toTensor()};
    Tensors result;
    if (value.isTuple())
      for (const auto& element : value.toTupleRef().elements()) result.push_back(element.toTensor());
    else
      result = value.toTensorVector();
    return result;
  }

  Tensors call(const Tensors& inputs) {
    const torch::jit::GraphOptimizerEnabledGuard optimiser_off(false);
    const ExceptionsPass exceptions_pass;
    NoWarnings no_warnings;
    const c10::WarningUtils::WarningHandlerGuard silence(&no_warnings);
    try {
      return unpacked(module_.forward(packed(inputs)));
    } catch (const c10::Error&) {
      throw;
    } catch (const std::exception& raised) {  // by the script itself
      const std::string text = raised.what();
      C10_THROW_ERROR(Error, text.substr(0, text.find('\n')));
    }
  }

  std::string name_;
  std::string kind_;
  torch::jit::Module module_;
  ScriptNorms norms_;
  std::vector<NamedTensor> parameters_;
  std::vector<NamedTensor> buffers_;
  InputGuard guard_;
  WrittenBuffers written_;
  bool packs_ = false;
  bool packs_list_ = false;
};

}  // namespace

std::string script_kind(const torch::jit::Module& module) {
  return module.type()->name() ? module.type()->name()->name() : "Module";
}

ScriptArity script_arity(const torch::jit::Module& module, const std::string& name) {
  if (!module.find_method("forward")) {
    throw Error("its " + script_kind(module) + " has no forward", name,
                "name a container of modules that can be called one after the other");
  }
  const auto arguments = required_arguments(module);
  ScriptArity arity{0, 0};
  for (const auto& argument : arguments) {
    const auto count = tensors_in(argument.type());
    if (!count || (arguments.size() > 1 && !is_tensor(argument.type())))
      throw Error("its input '" + argument.name() + "' is a " + argument.type()->str(), name, kTensorsOnly);
    arity.takes = arguments.size() == 1 ? *count : arity.takes + 1;
  }
  const auto& results = module.get_method("forward").function().getSchema().returns();
  const auto given = results.size() == 1 ? tensors_in(results[0].type()) : std::nullopt;
  if (!given) throw Error("its result is a " + (results.empty() ? "None" : results[0].type()->str()), name, kTensorsOnly);
  arity.gives = *given;
  return arity;
}

std::unique_ptr<Layer> make_script_layer(torch::jit::Module module, const std::string& name) {
  return std::make_unique<ScriptLayer>(std::move(module), name);
}

}  // namespace mptune::profiler
