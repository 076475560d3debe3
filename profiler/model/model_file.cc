#include "mptune/profiler/model/model_file.h"

#include <ATen/ATen.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "mptune/profiler/model/builtin.h"
#include "mptune/profiler/model/exported_archive.h"
#include "mptune/profiler/model/exported_model.h"
#include "mptune/profiler/model/plugin.h"
#include "mptune/profiler/model/script_file.h"
#include "mptune/profiler/model/torch_file.h"
#include "mptune/profiler/trace/error.h"

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
  return {bytes.data(), static_cast<std::size_t>(file.gcount())};
}

FileKind kind_of(const std::string& path) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (!std::filesystem::exists(status)) {
    throw Error("there is no such file", path, kKinds);
  }
  if (!std::filesystem::is_regular_file(status)) {
    throw Error(std::filesystem::is_directory(status) ? "this is a folder, not a model" : "this is no file", path, kKinds);
  }
  if (::access(path.c_str(), R_OK) != 0) {
    throw Error("the file cannot be read", path, "change its permissions");
  }
  const auto begin = first_bytes(path);
  if (begin == std::string_view("\x7f"
                                "ELF")) {
    return FileKind::plugin;
  }
  if (begin.starts_with("PK")) {
    return is_exported_archive(path) ? FileKind::program : FileKind::script;
  }
  if (begin.starts_with('\x80')) {
    throw Error("this is a pickle of Python, as torch.save wrote before PyTorch 1.6: tensors without a model", path, kKinds);
  }
  throw Error(begin.empty() ? "the file is empty" : "the file is neither a plug-in, an exported program nor TorchScript", path, kKinds);
}

std::string name_of(FileKind kind) {
  return kind == FileKind::plugin ? "plug-in" : kind == FileKind::program ? "exported program" : "TorchScript";
}

std::string container_of(const ModelText& text, FileKind kind) {
  const std::string key = "container=";
  if (!text.has_rest) {
    return "";
  }
  if (kind != FileKind::script) {
    throw Error("this kind of file (" + name_of(kind) + ") takes no options, but '" + text.rest + "' is given", text.name, "leave it out");
  }
  if (!text.rest.starts_with(key) || text.rest.size() == key.size()) {
    throw Error("'" + text.rest + "' is no option of a TorchScript file", text.name, "name a container: net.pt:container=backbone.blocks");
  }
  return text.rest.substr(key.size());
}

void set_input(SampleDescription& sample, const std::string& input) {
  if (const auto given = parse_input(input, kExpected)) {
    sample.input_shape = given->shape;
    sample.input_type = given->type.value_or(sample.input_type);
  }
}

std::vector<std::int64_t> without_first(at::IntArrayRef sizes) {
  return {sizes.begin() + (sizes.empty() ? 0 : 1), sizes.end()};
}

// A batch of the user's says all. What it lacks is said when it is used.
void describe_data(SampleDescription& sample, const std::string& path, bool input_is_given) {
  sample.target_classes = 0;
  for (const auto& [name, tensor] : read_torch_file(path)) {
    if (name == "input" && !input_is_given) {
      sample.input_shape = without_first(tensor.sizes());
      sample.input_type = tensor.scalar_type();
      sample.input_classes = 0;
    } else if (name == "target") {
      sample.target_shape = without_first(tensor.sizes());
      sample.target_type = tensor.scalar_type();
    }
  }
}

at::Tensor output_of(Model& model) {
  constexpr int kSamples = 2;  // batch norms need more than one value
  const at::NoGradGuard no_gradients;
  SampleDescription input_only = model.sample();
  input_only.target_type = at::kLong;
  input_only.target_classes = 0;
  auto outputs = forward_all(model, synthetic_batch(input_only, kSamples, 0).input, {.samples = kSamples});
  for (auto& layer : model.layers()) {
    (void)layer.layer->take_statistics();
  }
  if (outputs.empty() || outputs.front().dim() == 0 || outputs.front().size(0) != kSamples) {
    throw Error("two samples do not give two results", model.name(), "let the last layer return a tensor with the samples first");
  }
  return outputs.front();
}

// Class numbers for cross entropy, whose layout for language models has the classes last (loss.h).
void describe_classes(SampleDescription& sample, const at::Tensor& output) {
  auto sizes = without_first(output.sizes());
  if (sizes.empty()) {
    throw Error("the model gives one number per sample, which is no choice of classes", "--loss cross_entropy",
                "use --loss mse, or mean_square");
  }
  const bool classes_last = sizes.size() == 2 && !at::isFloatingType(sample.input_type);
  const auto classes = classes_last ? sizes.end() - 1 : sizes.begin();
  sample.target_classes = *classes;
  sizes.erase(classes);
  sample.target_shape = std::move(sizes);
  sample.target_type = at::kLong;
}

void describe_target(Model& model) {
  auto sample = model.sample();
  const auto& loss = model.loss().name();
  const bool known = sample.target_classes > 0 || at::isFloatingType(sample.target_type);
  const bool input_known = !sample.input_shape.empty() && (at::isFloatingType(sample.input_type) || sample.input_classes > 0);
  if (!input_known || (loss == "cross_entropy" && known) || (loss != "cross_entropy" && loss != "mse")) {
    return;
  }
  const auto output = output_of(model);
  if (loss == "mse") {
    sample.target_shape = without_first(output.sizes());
    sample.target_type = output.scalar_type();
    sample.target_classes = 0;
  } else {
    describe_classes(sample, output);
  }
  model.set_sample(std::move(sample));
}

void describe_sample(Model& model, const std::string& input, const StepSource& source) {
  auto sample = model.sample();
  set_input(sample, input);
  if (!source.data.empty()) {
    describe_data(sample, source.data, !input.empty());
  } else if (!sample.input_shape.empty() && !at::isFloatingType(sample.input_type) && sample.input_classes < 1) {
    throw Error("what integers the model takes is not known", input.empty() ? model.name() : "--input " + input,
                "give a batch of your own with --data FILE, or set input_classes in the plug-in's SampleDescription");
  }
  model.set_sample(std::move(sample));
  if (source.data.empty()) {
    describe_target(model);
  }
}

}  // namespace

BuiltinModel describe_model_file(const ModelText& text) {
  return {text.stem, "", name_of(kind_of(text.name)) + " " + text.name};
}

Model load_model_file(const ModelText& text, const std::string& input, std::optional<std::uint64_t> seed, const StepSource& source) {
  const auto kind = kind_of(text.name);
  const auto container = container_of(text, kind);
  Model model = kind == FileKind::plugin    ? load_plugin(text.name, seed.value_or(0))
                : kind == FileKind::program ? load_exported(text.name)
                                            : load_script(text.name, container);
  model.set_name(text.stem);
  if (!source.loss.empty()) {
    model.set_loss(Loss::from_name(source.loss));
  }
  describe_sample(model, input, source);
  return model;
}

Model load_model(const std::string& text, const std::string& input, std::optional<std::uint64_t> seed, const StepSource& source) {
  const auto parsed = parse_model_text(text);
  if (parsed.is_file) {
    return load_model_file(parsed, input, seed, source);
  }
  if (parsed.has_rest && parsed.rest.empty()) {
    throw Error("no parameter after the colon", text, "write " + parsed.name + " alone, or " + parsed.name + ":key=value");
  }
  Model model = load_builtin(parsed.name, parsed.rest, input, seed);
  if (!source.loss.empty()) {
    model.set_loss(Loss::from_name(source.loss));
  }
  return model;
}

}  // namespace mptune
