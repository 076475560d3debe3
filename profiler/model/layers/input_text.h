#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <torch/types.h>

namespace mptune::profiler {

/// Parts of `--input`.
struct InputText {
  std::vector<std::int64_t> shape;
  std::optional<at::ScalarType> type;
};
/// Parses SHAPE[:DTYPE]; nullopt for "". Throws Error with `expected`, which describes the model's input.
[[nodiscard]] std::optional<InputText> parse_input(const std::string& text, const std::string& expected);

}  // namespace mptune::profiler
