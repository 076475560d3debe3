#include "mptune/profiler/model/builtin.h"

#include <set>

#include "mptune/profiler/model/scalar_types.h"
#include "mptune/profiler/trace/error.h"
#include "mptune/profiler/trace/text.h"

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

using Factory = Model (*)(const std::string& parameters, const std::string& input, std::uint64_t seed);

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

Model load_model(const std::string& text, const std::string& input, std::uint64_t seed) {
  const auto colon = text.find(':');
  const auto name = text.substr(0, colon);
  std::string known;
  for (const auto& builtin : table()) {
    if (builtin.about.name == name) {
      if (colon != std::string::npos && colon + 1 == text.size()) {
        throw Error("no parameter after the colon", text, "write " + name + " alone, or " + name + ":key=value");
      }
      return builtin.make(colon == std::string::npos ? "" : text.substr(colon + 1), input, seed);
    }
    known += (known.empty() ? "" : ", ") + builtin.about.name;
  }
  throw Error("unknown model '" + text + "'", "MODEL", "built-in models are " + known);
}

}  // namespace mptune
