#include "profiler/base/sha256.h"

#include <nettle/hmac.h>
#include <nettle/sha2.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <vector>

#include "profiler/base/error.h"

namespace mptune {

namespace {

using Digest = std::array<std::uint8_t, SHA256_DIGEST_SIZE>;

const std::uint8_t* bytes_of(const std::string& text) {
  return reinterpret_cast<const std::uint8_t*>(text.data());
}

std::string hex_of(const Digest& digest) {
  std::string hex;
  for (const std::uint8_t byte : digest) {
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  return hex;
}

class Sha256 {
 public:
  Sha256() { sha256_init(&context_); }
  void add(const char* bytes, std::size_t count) { sha256_update(&context_, count, reinterpret_cast<const std::uint8_t*>(bytes)); }
  [[nodiscard]] std::string hex() {
    Digest digest{};
    sha256_digest(&context_, digest.size(), digest.data());
    return "sha256:" + hex_of(digest);
  }

 private:
  sha256_ctx context_{};
};

}  // namespace

std::string sha256(const std::string& text) {
  Sha256 sum;
  sum.add(text.data(), text.size());
  return sum.hex();
}

std::string sha256_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> part(std::size_t{1} << 20);
  Sha256 sum;
  while (file.read(part.data(), std::ssize(part)) || file.gcount() > 0) sum.add(part.data(), static_cast<std::size_t>(file.gcount()));
  if (!file.is_open() || file.bad()) throw Error("the file can't be read", path, "check the path and its permissions");
  return sum.hex();
}

std::string hmac_sha256(const std::string& key, const std::string& text) {
  hmac_sha256_ctx context{};
  hmac_sha256_set_key(&context, key.size(), bytes_of(key));
  hmac_sha256_update(&context, text.size(), bytes_of(text));
  Digest digest{};
  hmac_sha256_digest(&context, digest.size(), digest.data());
  return hex_of(digest);
}

}  // namespace mptune
