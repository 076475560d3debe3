#pragma once

#include <string>

namespace mptune {

/// "sha256:" and the 64 hex digits of `text`.
[[nodiscard]] std::string sha256(const std::string& text);

}  // namespace mptune
