#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <torch/types.h>

namespace mptune {

/// `--input` taken apart.
struct InputText {
  std::vector<std::int64_t> shape;
  std::optional<at::ScalarType> type;
};
/// Parses SHAPE[:DTYPE]; nothing for "". Throws Error; `expected` says what the model takes.
[[nodiscard]] std::optional<InputText> parse_input(const std::string& text, const std::string& expected);

}  // namespace mptune
