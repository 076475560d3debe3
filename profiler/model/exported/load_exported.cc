#include "profiler/model/exported/load_exported.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <map>
#include <utility>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/model/exported/archive.h"
#include "profiler/model/exported/input_classes.h"
#include "profiler/model/exported/layer_ends.h"
#include "profiler/model/exported/names.h"

namespace mptune::profiler {
namespace {

constexpr int kExportedBatch = 32;
const char* const kExportAgain =
    "export it again with mptune_export.py, or with model.train() and dynamic_shapes={'x': {0: Dim('batch', min=1)}}";
const char* const kSamplesFirst =
    "give every input the samples as its first dimension, and the same Dim in dynamic_shapes; make what all samples share a buffer";

void check_inputs(const BoundProgram& bound, const std::string& path) {
  const std::vector<int> inputs = exported_layer_inputs(bound, 0);
  if (inputs.empty()) throw Error("the program takes no tensor of samples", path, kExportAgain);
  for (const int input : inputs) {
    const ValueDescription& about = bound.program.graph.values[as_index(input)];
    const std::string what = "the program's input '" + about.name + "' ";
    if (!about.tensor) throw Error(what + "is a number", path, "export the program with a fixed number");
    const auto& sizes = about.tensor->sizes;
    if (sizes.empty()) throw Error(what + "has no samples", path, kSamplesFirst);
    if (bound.cuts.batch_symbol().empty())
      throw Error("the program was exported for a fixed batch of " + std::to_string(sizes[0].value({}).value_or(0)) +
                      " samples, which can't be split",
                  path, kExportAgain);
    if (sizes[0].multiple_of(bound.cuts.batch_symbol()) != 1)
      throw Error(what + "has something else than the samples as its first dimension", path, kSamplesFirst);
  }
}

/// True if the program has batch norms or dropout, and all of them are in evaluation mode.
bool in_evaluation(const ExportedProgram& program) {
  bool any = false;
  for (const ProgramNode& node : program.graph.nodes) {
    if (node.target != "torch.ops.aten.batch_norm.default" && node.target != "torch.ops.aten.dropout.default") continue;
    for (const NamedArgument& input : node.inputs) {
      if (input.name != "training" && input.name != "train") continue;
      any = true;
      if (const auto* trains = std::get_if<bool>(&input.argument); trains == nullptr || *trains) return false;
    }
  }
  return any;
}

/// Describes an input of one sample. Sizes that are not fixed, and whether its values are fractions, are taken from the example in the
/// file.
SampleTensor describe_input(const BoundProgram& bound, int value, const at::Tensor& example) {
  const ValueDescription& about = bound.program.graph.values[as_index(value)];
  const auto& sizes = about.tensor->sizes;
  const bool known = example.defined() && as_index(example.dim()) == sizes.size();
  SymbolValues symbols;
  for (const auto& [symbol, range] : bound.program.symbols) symbols[symbol] = std::max<std::int64_t>(1, range.least.value_or(1));
  SampleTensor input{.name = about.name, .type = scalar_type_of(about.tensor->scalar_type)};
  for (std::size_t d = 1; d < sizes.size(); ++d)
    input.shape.push_back(known ? example.size(static_cast<std::int64_t>(d)) : sizes[d].value(symbols).value_or(1));
  if (at::isFloatingType(input.type)) {
    const at::Tensor values = known ? example.to(at::kDouble) : at::Tensor();
    input.fraction = known && values.numel() > 0 && values.min().item<double>() >= 0 && values.max().item<double>() <= 1;
    return input;
  }
  input.classes = input.type == at::kBool ? 2 : classes_of_input(bound.program, value);
  if (input.classes == 0 && known && example.numel() > 0 && at::isIntegralType(example.scalar_type(), /*includeBool=*/false))
    input.classes = std::max<std::int64_t>(0, example.to(at::kLong).max().item<std::int64_t>()) + 1;
  return input;
}

SampleDescription describe_sample(const BoundProgram& bound, const Tensors& examples) {
  const std::vector<int> inputs = exported_layer_inputs(bound, 0);
  SampleDescription sample;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    sample.inputs.push_back(describe_input(bound, inputs[i], i < examples.size() ? examples[i] : at::Tensor()));
  return sample;
}

bool brings_its_loss(const BoundProgram& bound) {
  const std::vector<int> outputs = exported_layer_outputs(bound, bound.graph.nodes());
  if (outputs.empty()) return false;
  const auto& about = bound.program.graph.values[as_index(outputs[0])].tensor;
  return about && about->sizes.empty();
}

/// Initialises the weights of a file without weights with small random numbers, the same for the same seed.
void initialise(std::map<std::string, at::Tensor>& tensors, std::uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  for (auto& [name, tensor] : tensors)
    if (!tensor.is_floating_point())
      tensor.zero_();
    else if (tensor.dim() >= 2)
      tensor.normal_(0, 0.02, generator);
    else
      tensor.fill_(name.ends_with("weight") || name.ends_with("running_var") ? 1 : 0);
}

/// Returns warnings about the file, in one line.
std::vector<std::string> warnings_of(const BoundProgram& bound, bool without_weights) {
  std::vector<std::string> warnings;
  if (without_weights) warnings.emplace_back("the file holds no weights: random initialisation");
  if (bound.program.decomposed)
    warnings.emplace_back("the program was decomposed, which is slower: export it without run_decompositions()");
  for (const std::string& guard : bound.demands.unchecked())
    warnings.push_back("a condition on its inputs is not checked: " + guard.substr(0, 200));
  return warnings;
}

bool same_tensor(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() > 0 && a.data_ptr() == b.data_ptr() && a.sizes() == b.sizes() && a.strides() == b.strides() &&
         a.scalar_type() == b.scalar_type();
}

/// Returns parameters and saved buffers of the program that no layer holds under these names.
StateExtras extras_of(const ExportedProgram& program, const std::map<std::string, at::Tensor>& tensors,
                      const std::vector<ModelLayer>& layers) {
  std::vector<NamedTensor> held = parameters_of(layers);
  for (NamedTensor& buffer : buffers_of(layers)) held.push_back(std::move(buffer));
  StateExtras extras;
  for (const ProgramInput& input : program.inputs) {
    const bool saved = input.kind == ProgramInput::Kind::parameter || (input.kind == ProgramInput::Kind::buffer && input.persistent);
    const auto has_name = [&](const NamedTensor& named) { return named.name == input.name; };
    if (!saved || std::any_of(held.begin(), held.end(), has_name)) continue;
    const at::Tensor& tensor = tensors.at(input.name);
    const auto tied =
        std::find_if(held.begin(), held.end(), [&](const NamedTensor& named) { return same_tensor(tensors.at(named.name), tensor); });
    if (tied != held.end()) {
      extras.tied[input.name] = tied->name;
      continue;
    }
    extras.unused.push_back({input.name, tensor.detach().clone()});
    held.push_back(extras.unused.back());
  }
  return extras;
}

}  // namespace

LoadedModel load_exported(const std::string& path, std::uint64_t seed) {
  ExportedArchive archive = read_exported_archive(path);
  // mptune_export.py exports in training form; if it left its reference, frozen batch norms and dropouts are the user's wish.
  if (!archive.reference && in_evaluation(archive.program)) throw Error("the program was exported in evaluation form", path, kExportAgain);
  if (archive.without_weights) initialise(archive.tensors, seed);
  const auto bound = std::make_shared<const BoundProgram>(std::move(archive.program), path, kExportedBatch);
  check_inputs(*bound, path);
  bound->graph.check_draws();

  const std::vector<int> cuts = exported_layer_ends(*bound);
  const std::vector<std::string> names = exported_layer_names(bound->program, cuts);
  std::vector<ModelLayer> layers;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i)
    layers.push_back({names[i], exported_modules(bound->program, cuts[i], cuts[i + 1]),
                      make_exported_layer(bound, cuts[i], cuts[i + 1], archive.tensors)});

  Loss loss = Loss::cross_entropy();
  if (brings_its_loss(*bound)) loss = Loss::custom("model", [](const Tensors& outputs, const at::Tensor&) { return outputs.at(0); });
  StateExtras extras = extras_of(bound->program, archive.tensors, layers);
  const int batch = std::max(kExportedBatch, layers.front().layer->samples().least);
  return {Model("exported", std::move(layers), std::move(loss), describe_sample(*bound, archive.sample_inputs), batch),
          warnings_of(*bound, archive.without_weights), std::move(extras)};
}

}  // namespace mptune::profiler
