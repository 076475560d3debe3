#pragma once

#include <string>

namespace mptune {

/// Returns the SHA-256 of `text`: "sha256:" and 64 hex digits.
[[nodiscard]] std::string sha256(const std::string& text);
/// Returns the SHA-256 of a file's content, which is not held in memory as a whole. Throws Error (usage) if the file can't be read.
[[nodiscard]] std::string sha256_of_file(const std::string& path);
/// Returns the HMAC with SHA-256 (RFC 2104) of `text`, in 64 hex digits: without the key nobody can make the HMAC of another text.
[[nodiscard]] std::string hmac_sha256(const std::string& key, const std::string& text);

}  // namespace mptune
