#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mptune/profiler/model/input_text.h"
#include "mptune/profiler/model/model.h"

/// What the built-in models share: parameters after the colon, `--input`, limits.
namespace mptune {

/// One parameter of a built-in model with the values it may take.
struct ParameterRange {
  std::string key;
  std::int64_t value;  ///< the default
  std::int64_t least;
  std::int64_t most;
};

/// Parameters after the colon by key; every key of the ranges is present.
using ParameterValues = std::map<std::string, std::int64_t>;

/// Parses "d=256,layers=8". Throws Error for an unknown or repeated key, what is no integer, what is out of range; each lists what is
/// possible.
[[nodiscard]] ParameterValues parse_parameters(const std::string& model, const std::string& text,
                                               const std::vector<ParameterRange>& ranges);

/// float32 or float64 of `--input`, float32 where it is silent. Throws Error for another type.
[[nodiscard]] at::ScalarType floating_type(const std::optional<InputText>& input, const std::string& expected);

/// What a model of images takes.
struct ImageInput {
  std::string model;
  std::vector<std::int64_t> leading = {3};  ///< sizes before height and width
  std::int64_t side = 224;                  ///< the default
  std::int64_t least = 8;
  std::int64_t multiple = 1;  ///< both sides are multiples of it
};
/// Samples of `--input` ("" is the model's own) with one class number as their target. Throws Error for a shape or type that does not fit.
[[nodiscard]] SampleDescription parse_images(const ImageInput& images, const std::string& input, std::int64_t classes);

/// Number of tokens of `--input`; `seq` where it is silent. Throws Error where it differs from a seq= among the parameters or exceeds
/// `most`.
[[nodiscard]] std::int64_t parse_tokens(const std::string& model, const std::string& parameters, const std::string& input, std::int64_t seq,
                                        std::int64_t most);

/// Throws Error where attention heads do not divide the width.
void check_heads(const std::string& where, std::int64_t d, std::int64_t heads);

/// Throws Error where a model would have more than 2^31 parameters (8 GiB).
void check_size(const std::string& model, double parameters);

/// Of the initial weights; none: they stay uninitialised.
using Seed = std::optional<std::uint64_t>;

[[nodiscard]] Model make_mlp(const std::string& parameters, const std::string& input, Seed seed);
[[nodiscard]] Model make_resnet18(const std::string& parameters, const std::string& input, Seed seed);
[[nodiscard]] Model make_resnet50(const std::string& parameters, const std::string& input, Seed seed);
[[nodiscard]] Model make_transformer(const std::string& parameters, const std::string& input, Seed seed);
[[nodiscard]] Model make_vgg16(const std::string& parameters, const std::string& input, Seed seed);
[[nodiscard]] Model make_bert(const std::string& parameters, const std::string& input, Seed seed);
[[nodiscard]] Model make_unet(const std::string& parameters, const std::string& input, Seed seed);
[[nodiscard]] Model make_late_fusion(const std::string& parameters, const std::string& input, Seed seed);
[[nodiscard]] Model make_encoder_decoder_classifier(const std::string& parameters, const std::string& input, Seed seed);

}  // namespace mptune
