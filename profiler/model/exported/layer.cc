#include "profiler/model/exported/layer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/text.h"
#include "profiler/model/exported/layer_shape.h"
#include "profiler/model/exported/names.h"
#include "profiler/model/layers/batch_statistics.h"
#include "profiler/model/layers/scalar_types.h"

namespace mptune::profiler {
namespace {

struct BoundTensor {
  std::vector<int> values;  ///< several for a parameter with two names in the program
  std::string name;
  at::Tensor tensor;
  bool trained = false;
  bool saved = false;  ///< part of the state dict
};

struct Norm {
  int running_mean = -1;
  at::Tensor mean, variance, counter;
  std::optional<double> momentum;  ///< nullopt: the mean over all batches
};

/// Returns the name of a tensor: the first one if the program reads a parameter under several names.
const std::string& first_name(const LayerShape& shape, const std::map<std::string, at::Tensor>& tensors, const std::string& name) {
  const ExportedProgram& program = shape.bound->program;
  const at::Tensor& tensor = tensors.at(name);
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const auto* value = std::get_if<ProgramValue>(&program.graph.inputs[i]);
    const ProgramInput& input = program.inputs[i];
    if (value == nullptr || input.kind != ProgramInput::Kind::parameter || shape.bound->cuts.last_use(value->index) < 0) continue;
    const at::Tensor& other = tensors.at(input.name);
    const bool same = other.numel() > 0 && other.data_ptr() == tensor.data_ptr() && other.sizes() == tensor.sizes() &&
                      other.strides() == tensor.strides() && other.scalar_type() == tensor.scalar_type();
    if (same) return input.name;
  }
  return name;
}

class ExportedLayer final : public Layer {
 public:
  ExportedLayer(std::shared_ptr<const LayerShape> shape, std::vector<BoundTensor> tensors)
      : shape_(std::move(shape)), tensors_(std::move(tensors)), values_(as_index(shape_->bound->graph.values())) {
    find_norms();
  }

  Tensors forward(const Tensors& inputs, const RunContext& context) override {
    if (inputs.size() != shape_->inputs.size())
      throw Error("the layer takes " + std::to_string(shape_->inputs.size()) + " tensors, not " + std::to_string(inputs.size()), "model",
                  "give the program the inputs that it was exported with");
    if (shape_->first == 0) check_sizes(inputs);
    const Clearing clearing{values_};
    bind(inputs, context);
    bind_written(context);
    Tensors outputs = run_nodes(inputs.empty() ? at::Device(at::kCPU) : inputs[0].device(), context);
    if (!context.recomputing && !context.evaluating) keep_written();
    state_.clear();
    written_.clear();
    return outputs;
  }

  std::optional<TensorFlow> flow() const override { return shape_->flow; }

  std::vector<NamedTensor> parameters() const override {
    std::vector<NamedTensor> result;
    for (const BoundTensor& tensor : tensors_)
      if (tensor.trained) result.push_back({tensor.name, tensor.tensor});
    return result;
  }
  std::vector<NamedTensor> buffers() const override {
    std::vector<NamedTensor> result;
    for (const BoundTensor& tensor : tensors_)
      if (!tensor.trained && tensor.saved) result.push_back({tensor.name, tensor.tensor});
    return result;
  }

  bool shares_by_name() const override { return true; }
  void share(const std::string& name, const at::Tensor& tensor) override {
    for (BoundTensor& bound : tensors_)
      if (bound.name == name) bound.tensor = tensor;
  }

  std::unique_ptr<Layer> clone() const override {
    std::vector<BoundTensor> copies = tensors_;
    for (BoundTensor& copy : copies) {
      copy.tensor = copy.tensor.detach().clone();
      if (copy.trained) copy.tensor.requires_grad_();
    }
    return std::make_unique<ExportedLayer>(shape_, std::move(copies));
  }

  [[nodiscard]] ExportedRange range() const { return {shape_->bound, shape_->first, shape_->last}; }
  void observe(NodeObserver observer) { observer_ = std::move(observer); }
  /// Adds this layer's tensors under all names that the program has for them.
  void add_tensors(std::map<std::string, at::Tensor>& tensors) const {
    const ExportedProgram& program = shape_->bound->program;
    for (std::size_t i = 0; i < program.inputs.size(); ++i) {
      const auto* value = std::get_if<ProgramValue>(&program.graph.inputs[i]);
      for (const BoundTensor& bound : tensors_)
        if (value != nullptr && std::find(bound.values.begin(), bound.values.end(), value->index) != bound.values.end())
          tensors[program.inputs[i].name] = bound.tensor;
    }
  }

  std::string kind() const override { return shape_->kind; }
  SampleRange samples() const override {
    const auto& symbols = shape_->bound->program.symbols;
    const auto range = symbols.find(shape_->bound->cuts.batch_symbol());
    if (shape_->first > 0 || range == symbols.end()) return {};
    constexpr std::int64_t kMost = std::int64_t{1} << 20;  // larger batches are refused everywhere
    const std::int64_t least = std::clamp<std::int64_t>(range->second.least.value_or(1), 1, kMost);
    const std::int64_t most = range->second.most.value_or(kMost);
    return {static_cast<int>(least), most >= kMost ? 0 : static_cast<int>(std::max(most, least))};
  }
  bool has_batch_statistics() const override { return !norms_.empty(); }
  std::string written_buffer() const override { return shape_->written.empty() ? "" : shape_->value(shape_->written.front()).name; }
  std::vector<BatchStatistics> take_statistics() override { return std::exchange(taken_, {}); }
  void commit_statistics(const std::vector<std::vector<BatchStatistics>>& by_norm) override {
    for (std::size_t i = 0; i < norms_.size() && i < by_norm.size(); ++i)
      commit_batch({norms_[i].mean, norms_[i].variance, norms_[i].counter, norms_[i].momentum}, by_norm[i]);
  }

 private:
  /// Clears all values of a run, even if it ends by an exception.
  struct Clearing {
    ProgramValues& values;
    ~Clearing() { std::fill(values.begin(), values.end(), c10::IValue()); }
  };

  /// Lets in-place operators write to copies of the state, so that the graphs of other micro-batches keep what they saved. A recomputation
  /// begins with the state that its micro-batch's forward found.
  void bind_written(const RunContext& context) {
    if (shape_->written.empty()) return;
    const auto found = context.evaluating ? decltype(found_)::node_type() : found_.extract(context.microbatch);
    Tensors begins;
    state_.clear();
    written_.clear();
    for (const int written : shape_->written) {
      c10::IValue& value = values_[as_index(written)];
      const auto same = std::ranges::find_if(state_, [&](const at::Tensor& one) { return one.is_same(value.toTensor()); });
      const auto i = static_cast<std::size_t>(same - state_.begin());
      if (same == state_.end()) {
        state_.push_back(value.toTensor());
        begins.push_back(context.recomputing && found ? found.mapped()[i] : value.toTensor().detach().clone());
        written_.push_back(begins.back().clone());
      }
      value = written_[i];
    }
    if (context.recomputed) found_[context.microbatch] = std::move(begins);
  }

  void keep_written() {
    const at::NoGradGuard no_gradients;
    for (std::size_t i = 0; i < state_.size(); ++i) state_[i].copy_(written_[i]);
  }

  Tensors run_nodes(at::Device device, const RunContext& context) {
    ProgramRun run{device, context.recomputing, context.evaluating, context.draws, nullptr};
    if (!context.recomputing && !context.evaluating && !norms_.empty()) {
      taken_.assign(norms_.size(), {});
      run.batch_norm = [this](int mean, BatchStatistics statistics) { record(mean, std::move(statistics)); };
    }
    const ExportedGraph& graph = shape_->bound->graph;
    for (std::size_t place = 0; place < shape_->nodes.size(); ++place) {
      const int node = shape_->nodes[place];
      graph.run_node(node, values_, run);
      if (observer_)
        observer_(node, values_);  // the observer may read values that this layer carries for later layers
      else
        for (const int value : shape_->released[place]) values_[as_index(value)] = c10::IValue();
    }
    Tensors outputs;
    for (const int output : shape_->outputs) {
      const c10::IValue& value = values_[as_index(output)];
      if (!value.isTensor())
        throw Error("'" + shape_->value(output).name + "' is not a tensor", "model", "the file is damaged: export the model again");
      outputs.push_back(value.toTensor());
    }
    return outputs;
  }

  void find_norms() {
    const ExportedGraph& graph = shape_->bound->graph;
    const auto tensor_of = [&](const std::string& name) -> at::Tensor {
      for (const BoundTensor& tensor : tensors_)
        if (tensor.name == name) return tensor.tensor;
      return {};
    };
    for (const int node : shape_->nodes) {
      const int mean = graph.running_mean(node);
      if (mean < 0) continue;
      const auto bound_to = [&](int value) {
        return std::find_if(tensors_.begin(), tensors_.end(), [&](const BoundTensor& tensor) { return tensor.values.front() == value; });
      };
      const auto bound = bound_to(mean), variance = bound_to(graph.running_variance(node));
      if (bound == tensors_.end() || variance == tensors_.end()) continue;
      const std::string prefix = bound->name.substr(0, bound->name.rfind('.') + 1);
      const bool cumulative = shape_->bound->program.cumulative_norms.contains(prefix.substr(0, prefix.size() - 1));
      norms_.push_back({mean, bound->tensor, variance->tensor, tensor_of(prefix + "num_batches_tracked"),
                        cumulative ? std::nullopt : std::optional(graph.momentum(node))});
    }
  }

  void record(int mean, BatchStatistics statistics) {
    for (std::size_t i = 0; i < norms_.size(); ++i) {
      if (norms_[i].running_mean != mean) continue;
      if (taken_[i].count > 0)
        throw Error("the batch norm is called twice in one forward", shape_->value(mean).name,
                    "give every call a batch norm of its own, so that its running statistics can be committed once per batch");
      taken_[i] = std::move(statistics);
      return;
    }
  }

  void bind(const Tensors& inputs, const RunContext& context) {
    for (BoundTensor& tensor : tensors_) {
      // The caller has moved parameters and saved buffers to the device, but does not know of constants.
      if (!tensor.saved && !inputs.empty() && tensor.tensor.device() != inputs[0].device())
        tensor.tensor = tensor.tensor.to(inputs[0].device());
      for (const int value : tensor.values) values_[as_index(value)] = tensor.tensor;
    }
    SymbolValues symbols;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (shape_->first == 0) check_input(shape_->value(shape_->inputs[i]), inputs[i]);
      values_[as_index(shape_->inputs[i])] = shape_->cloned[i] ? inputs[i].clone() : inputs[i];
      if (shape_->flow.reads[i] > 0) learn_symbols(shape_->value(shape_->inputs[i]), inputs[i], symbols);
    }
    if (!shape_->bound->cuts.batch_symbol().empty()) symbols.try_emplace(shape_->bound->cuts.batch_symbol(), context.samples);
    for (const int number : shape_->numbers) {
      const ValueDescription& about = shape_->value(number);
      const std::optional<std::int64_t> value = about.size ? about.size->value(symbols) : std::nullopt;
      if (!value) throw Error("the number '" + about.name + "' can't be known here", "model", "cut the model elsewhere");
      values_[as_index(number)] = *value;
    }
  }

  /// Checks the type and sizes of a user's input.
  static void check_input(const ValueDescription& about, const at::Tensor& given) {
    if (!about.tensor) return;
    const auto& sizes = about.tensor->sizes;
    bool fits = given.scalar_type() == scalar_type_of(about.tensor->scalar_type) && sizes.size() == as_index(given.dim());
    std::ostringstream expected;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      const std::optional<std::int64_t> fixed = sizes[d].value({});
      fits = fits && (!fixed || *fixed == given.size(static_cast<std::int64_t>(d)));
      if (d > 0) expected << 'x';
      fixed ? expected << *fixed : expected << (d == 0 ? "SAMPLES" : "ANY");
    }
    if (!fits)
      throw Error("the input '" + about.name + "' is " + shape_text(given.sizes()) + ":" + scalar_type_name(given.scalar_type()) +
                      ", the program takes " + expected.str() + ":" + scalar_type_name(scalar_type_of(about.tensor->scalar_type)),
                  "model", "give what it was exported with, or export it for other sizes");
  }

  /// Derives values of symbols from sizes that are a multiple of one symbol.
  void learn_symbols(const ValueDescription& about, const at::Tensor& tensor, SymbolValues& symbols) const {
    if (!about.tensor || about.tensor->sizes.size() != as_index(tensor.dim())) return;
    for (std::size_t d = 0; d < about.tensor->sizes.size(); ++d) {
      if (about.tensor->sizes[d].is_number()) continue;
      for (const auto& [symbol, range] : shape_->bound->program.symbols) {
        const std::int64_t factor = about.tensor->sizes[d].multiple_of(symbol);
        if (factor > 0) symbols.try_emplace(symbol, tensor.size(static_cast<std::int64_t>(d)) / factor);
      }
    }
  }

  /// Checks sizes once per shape.
  void check_sizes(const Tensors& inputs) {
    std::vector<std::vector<std::int64_t>> sizes;
    for (const at::Tensor& input : inputs) sizes.push_back(input.sizes().vec());
    if (checked_.count(sizes) > 0) return;
    try {
      shape_->bound->demands.check(sizes);
    } catch (const Error& error) {
      // c10::Error, because profiling leaves out micro-batch sizes that throw it.
      C10_THROW_ERROR(Error, error.problem() + "; " + error.remedy());
    }
    checked_.insert(std::move(sizes));
  }

  std::shared_ptr<const LayerShape> shape_;
  std::vector<BoundTensor> tensors_;
  std::vector<Norm> norms_;
  std::vector<BatchStatistics> taken_;
  ProgramValues values_;
  NodeObserver observer_;
  Tensors state_, written_;       ///< what in-place operators write to, and the copies that the running forward writes
  std::map<int, Tensors> found_;  ///< by micro-batch that will be recomputed: the state that its forward found
  std::set<std::vector<std::vector<std::int64_t>>> checked_;
};

}  // namespace

std::vector<int> exported_layer_inputs(const BoundProgram& bound, int first) {
  if (first > 0) return bound.cuts.at(first).carried;
  std::vector<int> inputs;
  for (std::size_t i = 0; i < bound.program.inputs.size(); ++i) {
    const auto* value = std::get_if<ProgramValue>(&bound.program.graph.inputs[i]);
    if (value != nullptr && bound.program.inputs[i].kind == ProgramInput::Kind::user) inputs.push_back(value->index);
  }
  return inputs;
}

std::vector<int> exported_layer_outputs(const BoundProgram& bound, int last) {
  if (last < bound.graph.nodes()) return bound.cuts.at(last).carried;
  std::vector<int> outputs;
  for (std::size_t i = 0; i < bound.program.outputs.size(); ++i) {
    const auto* value = std::get_if<ProgramValue>(&bound.program.graph.outputs[i]);
    if (value == nullptr || bound.program.outputs[i].kind == ProgramOutput::Kind::buffer_mutation) continue;
    if (bound.program.graph.values[as_index(value->index)].kind == ValueDescription::Kind::tensor) outputs.push_back(value->index);
  }
  return outputs;
}

std::unique_ptr<Layer> make_exported_layer(std::shared_ptr<const BoundProgram> program, int first, int last,
                                           const std::map<std::string, at::Tensor>& tensors) {
  for (const int cut : {first, last}) {
    const std::string why = cut > 0 && cut < program->graph.nodes() ? program->cuts.at(cut).forbidden : "";
    if (!why.empty()) throw Error(program->graph.describe(cut) + ": no cut may be before it: " + why, "model", "cut the model elsewhere");
  }
  auto shape = std::make_shared<const LayerShape>(shape_of(std::move(program), first, last));
  const ExportedProgram& about = shape->bound->program;
  const std::set<int> used = state_of(*shape);
  std::vector<BoundTensor> bound;
  for (std::size_t i = 0; i < about.inputs.size(); ++i) {
    const auto* value = std::get_if<ProgramValue>(&about.graph.inputs[i]);
    const ProgramInput& input = about.inputs[i];
    if (value == nullptr || input.kind == ProgramInput::Kind::user || used.count(value->index) == 0) continue;
    const std::string& name = first_name(*shape, tensors, input.name);
    const auto found = std::find_if(bound.begin(), bound.end(), [&](const BoundTensor& other) { return other.name == name; });
    if (found != bound.end()) {
      found->values.push_back(value->index);
      continue;
    }
    const bool trained = input.kind == ProgramInput::Kind::parameter && shape->value(value->index).tensor &&
                         shape->value(value->index).tensor->requires_grad;
    const bool saved = input.kind == ProgramInput::Kind::parameter || (input.kind == ProgramInput::Kind::buffer && input.persistent);
    at::Tensor copy = tensors.at(input.name).detach().clone();
    if (trained) copy.requires_grad_();
    bound.push_back({{value->index}, name, std::move(copy), trained, saved});
  }
  return std::make_unique<ExportedLayer>(std::move(shape), std::move(bound));
}

std::optional<ExportedRange> exported_range(const Layer& layer) {
  const auto* exported = dynamic_cast<const ExportedLayer*>(&layer);
  return exported == nullptr ? std::nullopt : std::optional(exported->range());
}

std::unique_ptr<Layer> whole_exported_layer(const std::vector<const Layer*>& layers) {
  std::map<std::string, at::Tensor> tensors;
  for (const Layer* layer : layers) {
    const auto* exported = dynamic_cast<const ExportedLayer*>(layer);
    if (exported == nullptr) return nullptr;
    exported->add_tensors(tensors);
  }
  const std::shared_ptr<const BoundProgram> program = exported_range(*layers.at(0))->program;
  return make_exported_layer(program, 0, program->graph.nodes(), tensors);
}

void observe_nodes(Layer& layer, NodeObserver observer) {
  dynamic_cast<ExportedLayer&>(layer).observe(std::move(observer));
}

}  // namespace mptune::profiler
