#include "profiler/model/loading/load_model.h"

#include <ATen/ATen.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/model/exported/archive.h"
#include "profiler/model/exported/load_exported.h"
#include "profiler/model/files/sample_files.h"
#include "profiler/model/layers/input_text.h"
#include "profiler/model/plugin/plugin.h"
#include "profiler/model/script/load_script.h"

namespace mptune {
namespace {

constexpr const char* kKinds =
    "a model is a plug-in (MPTUNE_MODEL, net.so), an exported program (net.pt2), a TorchScript file (net.pt) or a built-in one";
constexpr const char* kExpected = "give sizes and a type, such as 3x224x224, 128:float64 or 64:int64 (integers with --data only)";

enum class FileKind { plugin, program, script };

std::string first_bytes(const std::string& path) {
  std::array<char, 4> bytes{};
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), bytes.size());
  return {bytes.data(), as_index(file.gcount())};
}

FileKind kind_of(const std::string& path) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (!std::filesystem::exists(status)) throw Error("there is no such file", path, kKinds);
  if (!std::filesystem::is_regular_file(status))
    throw Error(std::filesystem::is_directory(status) ? "this is a folder, not a model" : "this is not a regular file", path, kKinds);
  if (::access(path.c_str(), R_OK) != 0) throw Error("the file cannot be read", path, "change its permissions");
  const auto begin = first_bytes(path);
  if (begin == std::string_view("\x7f"
                                "ELF"))
    return FileKind::plugin;
  if (begin.starts_with("PK")) return profiler::is_exported_archive(path) ? FileKind::program : FileKind::script;
  if (begin.starts_with('\x80'))
    throw Error("this is a pickle of Python, as torch.save wrote before PyTorch 1.6: tensors without a model", path, kKinds);
  throw Error(begin.empty() ? "the file is empty" : "the file is neither a plug-in, an exported program nor TorchScript", path, kKinds);
}

std::string name_of(FileKind kind) {
  return kind == FileKind::plugin ? "plug-in" : kind == FileKind::program ? "exported program" : "TorchScript";
}

std::string container_of(const ModelText& text, FileKind kind) {
  const std::string key = "container=";
  if (!text.has_rest) return "";
  if (kind != FileKind::script)
    throw Error("this kind of file (" + name_of(kind) + ") takes no options, but '" + text.rest + "' is given", text.name, "leave it out");
  if (!text.rest.starts_with(key) || text.rest.size() == key.size())
    throw Error("'" + text.rest + "' is not an option of a TorchScript file", text.name,
                "name a container: net.pt:container=backbone.blocks");
  return text.rest.substr(key.size());
}

bool is_known(const SampleTensor& input) {
  return at::isFloatingType(input.type) || input.classes > 0;
}

void set_input(SampleDescription& sample, const std::string& input) {
  const auto given = profiler::parse_input(input, kExpected);
  if (!given) return;
  if (sample.inputs.size() > 1)
    throw Error("the model has several inputs and states their shapes itself", "--input " + input, "leave it out, or give --data FILE");
  sample.inputs.resize(1);
  auto& only = sample.inputs.front();
  only.shape = given->shape;
  only.type = given->type.value_or(only.type);
  only.classes = at::isFloatingType(only.type) ? 0 : only.classes;
}

std::vector<std::int64_t> without_first(at::IntArrayRef sizes) {
  return {sizes.begin() + (sizes.empty() ? 0 : 1), sizes.end()};
}

// Describes the samples by a batch of the user's. What the batch lacks is said when it is used.
void describe_data(SampleDescription& sample, const std::string& path, bool input_is_given) {
  const auto describe = [](SampleTensor& about, const at::Tensor& tensor) {
    about = {about.name, without_first(tensor.sizes()), tensor.scalar_type(), 0};
  };
  sample.inputs.resize(std::max<std::size_t>(1, sample.inputs.size()));
  sample.target.classes = 0;
  for (const auto& [name, tensor] : profiler::read_samples(path)) {
    for (auto& input : sample.inputs) {
      const bool meant = name == input.name || (name == "input" && sample.inputs.size() == 1);
      if (meant && !input_is_given) describe(input, tensor);
    }
    if (name == "target" &&
        std::none_of(sample.inputs.begin(), sample.inputs.end(), [](const auto& input) { return input.name == "target"; }))
      describe(sample.target, tensor);
  }
}

at::Tensor output_of(Model& model) {
  const SampleRange range = model.samples();
  const int samples = range.most == 1 ? 1 : std::max(2, range.least);  // one sample may be a case of its own
  const at::NoGradGuard no_gradients;
  SampleDescription input_only = model.sample();
  input_only.target = {.type = at::kLong};
  auto outputs = forward_all(model, synthetic_batch(input_only, samples, 0).inputs, {.samples = samples, .evaluating = true});
  if (outputs.empty() || outputs.front().dim() == 0 || outputs.front().size(0) != samples)
    throw Error(std::to_string(samples) + " samples do not give as many results", model.name(),
                "let the last layer return a tensor with the samples first");
  return outputs.front();
}

// Finds the number of classes for cross entropy. Outputs of language models have the classes last (loss.h).
void describe_classes(SampleDescription& sample, const at::Tensor& output) {
  auto sizes = without_first(output.sizes());
  if (sizes.empty()) {
    throw Error("the model gives one number per sample, and cross_entropy needs one per class", "--loss cross_entropy",
                "use --loss mse, or mean_square");
  }
  const bool of_integers =
      std::any_of(sample.inputs.begin(), sample.inputs.end(), [](const auto& input) { return !at::isFloatingType(input.type); });
  const auto classes = sizes.size() == 2 && of_integers ? sizes.end() - 1 : sizes.begin();
  sample.target = {.type = at::kLong, .classes = *classes};
  sizes.erase(classes);
  sample.target.shape = std::move(sizes);
}

// Returns the same layers by another name, with another loss and sample.
Model described(Model&& model, std::string name, Loss loss, SampleDescription sample) {
  return {std::move(name), std::move(model.layers()), std::move(loss), std::move(sample), model.default_batch()};
}

// Adds the target: what the loss needs and the model does not say follows from what the model returns.
SampleDescription with_target(Model& model) {
  auto sample = model.sample();
  const auto& loss = model.loss().name();
  const bool is_cross_entropy = loss.starts_with("cross_entropy");
  const bool known = sample.target.classes > 0 || at::isFloatingType(sample.target.type);
  const bool input_known = !sample.inputs.empty() && std::all_of(sample.inputs.begin(), sample.inputs.end(), is_known);
  if (!input_known || (is_cross_entropy && known) || (!is_cross_entropy && loss != "mse")) return sample;
  const auto output = output_of(model);
  if (loss == "mse")
    sample.target = {.shape = without_first(output.sizes()), .type = output.scalar_type()};
  else
    describe_classes(sample, output);
  return sample;
}

// Returns the sample that `--input` and `--data` describe.
SampleDescription given_sample(SampleDescription sample, const std::string& model, const std::string& input, const StepSource& source) {
  set_input(sample, input);
  if (!source.data.empty()) {
    describe_data(sample, source.data, !input.empty());
  } else if (!std::all_of(sample.inputs.begin(), sample.inputs.end(), is_known)) {
    throw Error("what integers the model takes is not known", input.empty() ? model : "--input " + input,
                "give a batch of your own with --data FILE, or set the input's classes in the plug-in's SampleDescription");
  }
  return sample;
}

LoadedModel read_model(FileKind kind, const std::string& path, const std::string& container, std::uint64_t seed) {
  if (kind == FileKind::plugin) return {profiler::load_plugin(path, seed)};
  return kind == FileKind::program ? profiler::load_exported(path, seed) : profiler::load_script(path, container);
}

// Loads a file's model, named after the file's stem. Samples are those of `source.data`, else of `input`, else the model's own; what is not
// known about the target is found by running two samples, unless only names, shapes and counts are needed.
LoadedModel load_model_file(const ModelText& text, const std::string& input, std::optional<std::uint64_t> seed, const StepSource& source) {
  const auto kind = kind_of(text.name);
  auto loaded = read_model(kind, text.name, container_of(text, kind), seed.value_or(0));
  auto& model = loaded.model;
  if (!source.loss.empty() && kind == FileKind::program && model.loss().name() == "model")
    throw Error("the program computes its loss itself", "--loss " + source.loss, "leave it out, or export the model without the loss");
  const Loss loss = source.loss.empty() ? model.loss() : Loss::from_name(source.loss);
  model = described(std::move(model), text.stem, loss, given_sample(model.sample(), text.stem, input, source));
  if (source.data.empty() && seed) model = described(std::move(model), text.stem, loss, with_target(model));
  return loaded;
}

}  // namespace

BuiltinModel describe_model_file(const ModelText& text) {
  return {text.stem, "", name_of(kind_of(text.name)) + " " + text.name};
}

LoadedModel load_model(const std::string& text, const std::string& input, std::optional<std::uint64_t> seed, const StepSource& source) {
  const auto parsed = parse_model_text(text);
  if (parsed.is_file) return load_model_file(parsed, input, seed, source);
  if (parsed.has_rest && parsed.rest.empty())
    throw Error("no parameter after the colon", text, "write " + parsed.name + " alone, or " + parsed.name + ":key=value");
  Model model = load_builtin(parsed.name, parsed.rest, input, seed);
  if (source.loss.empty()) return {std::move(model)};
  return {described(std::move(model), model.name(), Loss::from_name(source.loss), model.sample())};
}

}  // namespace mptune
