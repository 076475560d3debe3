#pragma once

#include <cstdint>
#include <functional>
#include <streambuf>
#include <string>
#include <vector>

namespace mptune {

/// Text that is read once from front to back and that nobody vouches for: it ends in an Error beyond 4 GiB, and where 16 MiB go by
/// without a token (one string, one stretch of blanks), so that a small compressed file can't fill the memory.
class TextInput : public std::streambuf {
 public:
  /// Fills at most `size` bytes and returns how many; 0 at the end. Throws Error where the source is broken.
  using Read = std::function<std::size_t(char* data, std::size_t size)>;

  /// `where` names the source in messages.
  TextInput(std::string where, Read read);

  /// Says that what was read so far has been understood.
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

/// Opens a file of text, compressed with gzip or not. Throws Error: missing, not a file, no permission.
[[nodiscard]] TextInput open_text(const std::string& path);

/// Text in memory, which has to outlive the result.
[[nodiscard]] TextInput text_in_memory(const char* data, std::size_t size);

}  // namespace mptune
