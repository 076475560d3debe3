#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <streambuf>
#include <string>
#include <vector>

namespace mptune::profiler {

/// A place in a text, for messages.
struct TextPlace {
  std::int64_t line = 1;
  std::int64_t column = 1;  ///< in bytes
  std::string near;         ///< the text around it, of the same line, at most about 60 bytes
  bool at_end = false;      ///< the text ends there
};

/// Untrusted text, read once from front to back. Limits keep a small compressed file from filling the memory: it throws Error beyond 4 GiB
/// of text, beyond 512 MiB without an item (once item() was called), beyond 16 MiB without a token (one string, one stretch of blanks),
/// and, for a file, beyond 256 MiB and 100 times its size. The limit in MPTUNE_UNPACKED_GIB replaces all of these except the one on tokens.
class TextInput : public std::streambuf {
 public:
  /// Reads at most `size` bytes and returns how many; 0 at the end. Throws Error if the source is broken.
  using Read = std::function<std::size_t(char* data, std::size_t size)>;

  /// `where` names the source in messages.
  TextInput(std::string where, Read read);

  /// Marks the end of a token at the current position.
  void token() { token_ = position(); }
  /// Marks the begin of the text whose items count (the events of a trace), and the end of each.
  void item() { item_ = position(); }

  [[nodiscard]] const std::string& where() const { return where_; }
  /// Returns the number of bytes read so far.
  [[nodiscard]] std::int64_t position() const { return before_ + (gptr() - eback()); }
  /// Returns where byte number `count` of the text is, counted from 1. Exact for the bytes that were read last; a number one larger than
  /// the bytes read is the end.
  [[nodiscard]] TextPlace place(std::int64_t count) const;

 protected:
  int_type underflow() override;

 private:
  std::string where_;
  Read read_;
  std::vector<char> block_;
  std::int64_t before_ = 0;  // bytes of earlier blocks
  std::int64_t token_ = 0;
  std::optional<std::int64_t> item_;
  std::int64_t lines_ = 0;       // ends of lines in earlier blocks
  std::int64_t line_start_ = 0;  // bytes before the line in which the current block begins
  std::string tail_;             // last bytes of earlier blocks
};

/// Opens a text file, gzip or not. Throws Error: missing, not a file, no permission.
[[nodiscard]] TextInput open_text(const std::string& path);

/// Reads text in memory, which must outlive the result.
[[nodiscard]] TextInput text_in_memory(const char* data, std::size_t size);

}  // namespace mptune::profiler
