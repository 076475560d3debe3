#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mptune::reports {

/// How text may look. The program decides it once, and everything that renders is a function of it.
struct TextStyle {
  int width = 80;       ///< columns, at least 60
  bool unicode = true;  ///< box drawing and blocks; else plain ASCII
  bool color = false;   ///< SGR sequences; colour never carries meaning alone
  /// Stands in our escape sequences until the text is written, to tell them from those in texts of other programs. 0: our sequences are SGR
  /// at once.
  std::uint32_t mark = 0;
};

enum class Color { none, bold, dim, red, green, yellow, blue, magenta, cyan };

/// Returns `text` in a colour where the style allows it.
[[nodiscard]] std::string paint(const TextStyle& style, Color color, const std::string& text);

/// Returns text that is ready to be written: sequences that paint() made under this style become SGR, and all else is made printable.
[[nodiscard]] std::string finished(const TextStyle& style, const std::string& text);

/// Returns the columns that UTF-8 text takes: its code points, not counting escape sequences.
[[nodiscard]] int display_width(const std::string& text);
/// Returns the first `columns` columns of text without our escape sequences, made printable.
[[nodiscard]] std::string clip_text(const std::string& given, int columns);
/// Returns the text, made printable; where it is wider than `columns`, only its beginning and its end: "cpu:0,2,4..28,30".
[[nodiscard]] std::string shortened(const std::string& given, int columns);
[[nodiscard]] std::string pad_right(const std::string& text, int columns);
[[nodiscard]] std::string pad_left(const std::string& text, int columns);
/// Returns `count` copies of `glyph`, none for a negative count.
[[nodiscard]] std::string repeat(const std::string& glyph, int count);
/// Returns text without our escape sequences, made printable and broken at blanks so that no line is wider than `columns`, unless a single
/// word is. Returns at least one line.
[[nodiscard]] std::vector<std::string> wrap(const std::string& given, int columns);

/// Returns lines of text after a label, with further lines indented as far as the first.
[[nodiscard]] std::string hanging(const std::string& label, const std::string& text, const TextStyle& style);

/// Returns a line with a title and a dim rule to the full width.
[[nodiscard]] std::string heading(const TextStyle& style, const std::string& title);

/// Returns the columns that names of devices may take at the left of a picture.
[[nodiscard]] constexpr int most_label(const TextStyle& style) {
  return style.width / 3;
}

/// A picture of single-column glyphs, each with a colour. Without room it is empty.
class Canvas {
 public:
  Canvas(int rows, int columns);
  /// Draws one glyph; outside of the picture nothing happens.
  void put(int row, int column, const std::string& glyph, Color color = Color::none);
  /// Draws ASCII text, a glyph per character.
  void text(int row, int column, const std::string& ascii, Color color = Color::none);
  /// Returns a row without trailing blanks.
  [[nodiscard]] std::string row(int row, const TextStyle& style) const;
  [[nodiscard]] int columns() const { return columns_; }

 private:
  struct Glyph {
    std::string text = " ";
    Color color = Color::none;
  };
  int columns_;
  std::vector<std::vector<Glyph>> rows_;
};

}  // namespace mptune::reports
