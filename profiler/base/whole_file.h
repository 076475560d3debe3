#pragma once

#include <cstdint>
#include <string>

namespace mptune {

/// Reads a regular file of at most `largest_bytes`, a whole number of MiB. `what` is named in remedies: "plan file". Throws Error.
[[nodiscard]] std::string read_whole_file(const std::string& path, std::int64_t largest_bytes, const std::string& what);

}  // namespace mptune
