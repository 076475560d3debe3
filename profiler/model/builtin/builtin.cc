#include "profiler/model/builtin/builtin.h"

#include <algorithm>
#include <set>

#include "profiler/base/error.h"
#include "profiler/base/text.h"
#include "profiler/model/layers/scalar_types.h"

namespace mptune::profiler {
namespace {

constexpr double kMostParameters = 2147483648.0;

std::string possible(const std::string& model, const std::vector<ParameterRange>& ranges) {
  if (ranges.empty()) return model + " takes no parameters";
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
  for (const auto& candidate : ranges) range = candidate.key == key ? &candidate : range;
  if (equals == std::string::npos || range == nullptr)
    throw Error(equals == std::string::npos ? "'" + item + "' is not key=value" : "unknown parameter '" + key + "'", where, remedy);
  if (!given.insert(key).second) throw Error("parameter '" + key + "' is given twice", where, remedy);
  const auto value = integer(item.substr(equals + 1));
  if (!value || *value < range->least || *value > range->most)
    throw Error("'" + item + "' is " + (value ? "out of range" : "not an integer"), where, remedy);
  values[key] = *value;
}

}  // namespace

ParameterValues parse_parameters(const std::string& model, const std::string& text, const std::vector<ParameterRange>& ranges) {
  ParameterValues values;
  for (const auto& range : ranges) values[range.key] = range.value;
  std::set<std::string> given;
  if (!text.empty())
    for (const auto& item : split(text, ',')) parse_parameter(item, model + ":" + text, possible(model, ranges), ranges, values, given);
  return values;
}

at::ScalarType floating_type(const std::optional<InputText>& input, const std::string& expected) {
  const auto type = input && input->type ? *input->type : at::kFloat;
  if (type != at::kFloat && type != at::kDouble)
    throw Error("elements of type " + scalar_type_name(type) + " do not fit this model", "--input", expected);
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
  if (!given) return {{input_tensor}, target};
  const auto fits = [&](std::int64_t size) { return size >= images.least && size <= kMostSide && size % images.multiple == 0; };
  const auto channels = images.leading.size();
  if (given->shape.size() != channels + 2 || !std::equal(images.leading.begin(), images.leading.end(), given->shape.begin()) ||
      !fits(given->shape[channels]) || !fits(given->shape[channels + 1]))
    throw Error("shape '" + input + "' does not fit", "--input", expected);
  input_tensor.shape = given->shape;
  return {{input_tensor}, target};
}

std::int64_t parse_tokens(const std::string& model, const std::string& parameters, const std::string& input, std::int64_t seq,
                          std::int64_t most) {
  const std::string expected = model + " takes SEQ or SEQ:int64, the number of tokens from 1 to " + std::to_string(most) + ", e.g. 64";
  const auto given = parse_input(input, expected);
  if (!given) return seq;
  const bool fits = given->shape.size() == 1 && given->shape[0] <= most && given->type.value_or(at::kLong) == at::kLong;
  const bool stated = ("," + parameters).find(",seq=") != std::string::npos;
  if (!fits || (stated && given->shape[0] != seq))
    throw Error("'" + input + "' does not fit" + (fits ? " seq=" + std::to_string(seq) : ""), "--input", expected);
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

}  // namespace mptune::profiler
