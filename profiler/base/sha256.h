#pragma once

#include <string>

namespace mptune {

/// SHA-256 of `text`: "sha256:" and 64 hex digits.
[[nodiscard]] std::string sha256(const std::string& text);
/// The same of a file's content, which is not held in memory as a whole. Throws Error (usage) where it can't be read.
[[nodiscard]] std::string sha256_of_file(const std::string& path);
/// HMAC with SHA-256 (RFC 2104), in 64 hex digits: who does not know the key can't make that of another text.
[[nodiscard]] std::string hmac_sha256(const std::string& key, const std::string& text);

}  // namespace mptune
