#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "profiler/model/layers/input_text.h"
#include "profiler/model/layers/model.h"

/// Shared by the built-in models: parameters after the colon, `--input`, limits.
namespace mptune::profiler {

/// One parameter of a built-in model with the values it may take.
struct ParameterRange {
  std::string key;
  std::int64_t value;  ///< the default
  std::int64_t least;
  std::int64_t most;
};

/// Parameters after the colon by key; every key of the ranges is present.
using ParameterValues = std::map<std::string, std::int64_t>;

/// Parses "d=256,layers=8". Throws Error, which lists the possible values: an unknown or repeated key, not an integer, out of range.
[[nodiscard]] ParameterValues parse_parameters(const std::string& model, const std::string& text,
                                               const std::vector<ParameterRange>& ranges);

/// Returns the type of `--input`: float32 (default) or float64. Throws Error for another type.
[[nodiscard]] at::ScalarType floating_type(const std::optional<InputText>& input, const std::string& expected);

/// Input of an image model.
struct ImageInput {
  std::string model;
  std::vector<std::int64_t> leading = {3};  ///< sizes before height and width
  std::int64_t side = 224;                  ///< the default
  std::int64_t least = 8;
  std::int64_t multiple = 1;  ///< both sides are multiples of it
};
/// Returns the samples of `--input` ("": the model's default) with one class number as target. Throws Error for an unsuitable shape or
/// type.
[[nodiscard]] SampleDescription parse_images(const ImageInput& images, const std::string& input, std::int64_t classes);

/// Returns the number of tokens of `--input`, by default `seq`. Throws Error if it differs from seq= in the parameters or exceeds `most`.
[[nodiscard]] std::int64_t parse_tokens(const std::string& model, const std::string& parameters, const std::string& input, std::int64_t seq,
                                        std::int64_t most);

/// Throws Error if `heads` does not divide `d`.
void check_heads(const std::string& where, std::int64_t d, std::int64_t heads);

/// Throws Error if a model would have more than 2^31 parameters (8 GiB).
void check_size(const std::string& model, double parameters);

/// Seed of the initial weights; nullopt: they stay uninitialised.
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

}  // namespace mptune::profiler
