#pragma once

#include <cstdint>
#include <functional>
#include <streambuf>
#include <string>
#include <vector>

namespace mptune::profiler {

/// Untrusted text, read once from front to back. Limits keep a small compressed file from filling the memory:
/// Error beyond 4 GiB of text and beyond 16 MiB without a token (one string, one stretch of blanks).
class TextInput : public std::streambuf {
 public:
  /// Reads at most `size` bytes and returns how many; 0 at the end. Throws Error if the source is broken.
  using Read = std::function<std::size_t(char* data, std::size_t size)>;

  /// `where` names the source in messages.
  TextInput(std::string where, Read read);

  /// Marks the end of a token at the current position.
  void token() { token_ = position(); }

  [[nodiscard]] const std::string& where() const { return where_; }
  /// Bytes read so far.
  [[nodiscard]] std::int64_t position() const { return before_ + (gptr() - eback()); }

 protected:
  int_type underflow() override;

 private:
  std::string where_;
  Read read_;
  std::vector<char> block_;
  std::int64_t before_ = 0;  // bytes of earlier blocks
  std::int64_t token_ = 0;
};

/// Opens a text file, gzip or not. Throws Error: missing, not a file, no permission.
[[nodiscard]] TextInput open_text(const std::string& path);

/// Reads text in memory, which must outlive the result.
[[nodiscard]] TextInput text_in_memory(const char* data, std::size_t size);

}  // namespace mptune::profiler
