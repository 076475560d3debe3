#include "mptune/profiler/model/builtin.h"

#include <algorithm>
#include <set>

#include "mptune/profiler/base/error.h"
#include "mptune/profiler/base/text.h"
#include "mptune/profiler/model/scalar_types.h"

namespace mptune {
namespace {

constexpr double kMostParameters = 2147483648.0;

std::string possible(const std::string& model, const std::vector<ParameterRange>& ranges) {
  if (ranges.empty()) {
    return model + " takes no parameters";
  }
  std::string text = model + " takes ";
  for (const auto& range : ranges) {
    text += (&range == ranges.data() ? "" : ", ") + range.key + " (" + std::to_string(range.least) + " to " + std::to_string(range.most) +
            ", default " + std::to_string(range.value) + ")";
  }
  return text;
}

void parse_parameter(const std::string& item, const std::string& where, const std::string& remedy,
                     const std::vector<ParameterRange>& ranges, ParameterValues& values, std::set<std::string>& given) {
  const auto equals = item.find('=');
  const auto key = item.substr(0, equals);
  const ParameterRange* range = nullptr;
  for (const auto& candidate : ranges) {
    range = candidate.key == key ? &candidate : range;
  }
  if (equals == std::string::npos || range == nullptr) {
    throw Error(equals == std::string::npos ? "'" + item + "' is not key=value" : "unknown parameter '" + key + "'", where, remedy);
  }
  if (!given.insert(key).second) {
    throw Error("parameter '" + key + "' is given twice", where, remedy);
  }
  const auto value = integer(item.substr(equals + 1));
  if (!value || *value < range->least || *value > range->most) {
    throw Error("'" + item + "' is " + (value ? "out of range" : "not an integer"), where, remedy);
  }
  values[key] = *value;
}

using Factory = Model (*)(const std::string& parameters, const std::string& input, Seed seed);

struct Builtin {
  BuiltinModel about;
  Factory make;
};

const std::vector<Builtin>& table() {
  static const std::vector<Builtin> all = {
      {{"mlp", "layers=2,width=10", "linear layers with ReLU between them; two of them are the toy of PyTorch's model-parallel tutorial"},
       make_mlp},
      {{"resnet18", "", "torchvision's ResNet-18, a layer per block"}, make_resnet18},
      {{"resnet50", "", "torchvision's ResNet-50, a layer per block"}, make_resnet50},
      {{"transformer", "d=256,layers=8,heads=8,seq=64,vocab=1000", "GPT-style language model, a layer per block"}, make_transformer},
      {{"vgg16", "width=64,hidden=4096,classes=1000,dropout=50", "torchvision's VGG-16 with dropout (percent), a layer per convolution"},
       make_vgg16},
      {{"bert", "d=768,layers=12,heads=12,seq=128,vocab=30522,classes=2,dropout=10",
        "BERT encoder with a classifier; padding masks cross the cuts"},
       make_bert},
      {{"unet", "base=64,depth=4,classes=2", "U-Net for segmentation; its skips are carried along the chain"}, make_unet},
      {{"late-fusion", "width=64,classes=1000", "two ResNet-18 branches, one image each, joined by a head"}, make_late_fusion},
      {{"encoder-decoder-classifier", "width=32,hidden=128,classes=10",
        "convolutional autoencoder whose code is classified too: three parts, two losses"},
       make_encoder_decoder_classifier},
  };
  return all;
}

}  // namespace

ParameterValues parse_parameters(const std::string& model, const std::string& text, const std::vector<ParameterRange>& ranges) {
  ParameterValues values;
  for (const auto& range : ranges) {
    values[range.key] = range.value;
  }
  std::set<std::string> given;
  if (!text.empty()) {
    for (const auto& item : split(text, ',')) {
      parse_parameter(item, model + ":" + text, possible(model, ranges), ranges, values, given);
    }
  }
  return values;
}

std::optional<InputText> parse_input(const std::string& text, const std::string& expected) {
  if (text.empty()) {
    return std::nullopt;
  }
  constexpr std::int64_t kMostSize = 1 << 24;
  InputText result;
  const auto colon = text.find(':');
  for (const auto& part : split(text.substr(0, colon), 'x')) {
    const auto size = integer(part);
    if (!size || *size < 1 || *size > kMostSize) {
      throw Error("'" + text + "' is not a shape", "--input", expected);
    }
    result.shape.push_back(*size);
  }
  if (colon != std::string::npos) {
    result.type = scalar_type_by_name(text.substr(colon + 1));
    if (!result.type) {
      throw Error("unknown element type '" + text.substr(colon + 1) + "'", "--input", expected);
    }
  }
  return result;
}

at::ScalarType floating_type(const std::optional<InputText>& input, const std::string& expected) {
  const auto type = input && input->type ? *input->type : at::kFloat;
  if (type != at::kFloat && type != at::kDouble) {
    throw Error("elements of type " + scalar_type_name(type) + " do not fit this model", "--input", expected);
  }
  return type;
}

SampleDescription parse_images(const ImageInput& images, const std::string& input, std::int64_t classes) {
  constexpr std::int64_t kMostSide = 4096;
  const auto text = shape_text(images.leading) + "x";
  const auto side = std::to_string(images.side);
  const std::string multiples = images.multiple > 1 ? ", multiples of " + std::to_string(images.multiple) + "," : "";
  const std::string expected = images.model + " takes " + text + "HEIGHTxWIDTH or " + text + "HEIGHTxWIDTH:float64 with sides" + multiples +
                               " from " + std::to_string(images.least) + " to " + std::to_string(kMostSide) + ", e.g. " + text + side +
                               "x" + side;
  const auto given = parse_input(input, expected);
  SampleTensor input_tensor{.shape = images.leading, .type = floating_type(given, expected)};
  input_tensor.shape.insert(input_tensor.shape.end(), {images.side, images.side});
  const SampleTensor target{.type = at::kLong, .classes = classes};
  if (!given) {
    return {{input_tensor}, target};
  }
  const auto fits = [&](std::int64_t size) { return size >= images.least && size <= kMostSide && size % images.multiple == 0; };
  const auto channels = images.leading.size();
  if (given->shape.size() != channels + 2 || !std::equal(images.leading.begin(), images.leading.end(), given->shape.begin()) ||
      !fits(given->shape[channels]) || !fits(given->shape[channels + 1])) {
    throw Error("shape '" + input + "' does not fit", "--input", expected);
  }
  input_tensor.shape = given->shape;
  return {{input_tensor}, target};
}

std::int64_t parse_tokens(const std::string& model, const std::string& parameters, const std::string& input, std::int64_t seq,
                          std::int64_t most) {
  const std::string expected = model + " takes SEQ or SEQ:int64, the number of tokens from 1 to " + std::to_string(most) + ", e.g. 64";
  const auto given = parse_input(input, expected);
  if (!given) {
    return seq;
  }
  const bool fits = given->shape.size() == 1 && given->shape[0] <= most && given->type.value_or(at::kLong) == at::kLong;
  const bool stated = ("," + parameters).find(",seq=") != std::string::npos;
  if (!fits || (stated && given->shape[0] != seq)) {
    throw Error("'" + input + "' does not fit" + (fits ? " seq=" + std::to_string(seq) : ""), "--input", expected);
  }
  return given->shape[0];
}

void check_heads(const std::string& where, std::int64_t d, std::int64_t heads) {
  if (d % heads != 0) {
    throw Error(std::to_string(heads) + " heads do not divide d=" + std::to_string(d), where,
                "choose d as a multiple of heads, e.g. d=" + std::to_string(heads * std::max<std::int64_t>(1, d / heads)));
  }
}

void check_size(const std::string& model, double parameters) {
  if (parameters > kMostParameters) {
    throw Error("the model would have " + std::to_string(static_cast<std::int64_t>(parameters / 1e9)) + " billion parameters", model,
                "choose sizes that stay below 2 billion");
  }
}

const std::vector<BuiltinModel>& builtin_models() {
  static const std::vector<BuiltinModel> models = [] {
    std::vector<BuiltinModel> result;
    for (const auto& builtin : table()) {
      result.push_back(builtin.about);
    }
    return result;
  }();
  return models;
}

Model load_builtin(const std::string& name, const std::string& parameters, const std::string& input, Seed seed) {
  std::string known;
  for (const auto& builtin : table()) {
    if (builtin.about.name == name) {
      return builtin.make(parameters, input, seed);
    }
    known += (known.empty() ? "" : ", ") + builtin.about.name;
  }
  throw Error(
      "unknown model '" + name + "'", "MODEL",
      "built-in models are " + known + "; your own is an exported program (net.pt2), a plug-in (net.so) or a TorchScript file (net.pt)");
}

}  // namespace mptune
