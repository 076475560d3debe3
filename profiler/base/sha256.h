#pragma once

#include <string>

namespace mptune {

/// SHA-256 of `text`: "sha256:" and 64 hex digits.
[[nodiscard]] std::string sha256(const std::string& text);

}  // namespace mptune
