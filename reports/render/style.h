#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mptune::reports {

/// How text may look. Decided once, by the program; everything that renders is a function of it.
struct TextStyle {
  int width = 80;       ///< columns, at least 60
  bool unicode = true;  ///< box drawing and blocks; else plain ASCII
  bool color = false;   ///< SGR sequences; colour never carries meaning alone
  /// Stands in our sequences until the text is written, so that those of other programs' texts are told apart. 0: they are SGR at once.
  std::uint32_t mark = 0;
};

enum class Color { none, bold, dim, red, green, yellow, blue, magenta, cyan };

/// `text` in a colour where the style allows it.
[[nodiscard]] std::string paint(const TextStyle& style, Color color, const std::string& text);

/// Text that is ready to be written: sequences that paint() made under this style become SGR, all else is made printable.
[[nodiscard]] std::string finished(const TextStyle& style, const std::string& text);

/// Columns that UTF-8 text takes: code points, escape sequences not counted.
[[nodiscard]] int display_width(const std::string& text);
/// The first `columns` columns of text without our escape sequences, made printable.
[[nodiscard]] std::string clip_text(const std::string& given, int columns);
/// The text, made printable; where it is wider than `columns`, its beginning and its end: "cpu:0,2,4..28,30".
[[nodiscard]] std::string shortened(const std::string& given, int columns);
[[nodiscard]] std::string pad_right(const std::string& text, int columns);
[[nodiscard]] std::string pad_left(const std::string& text, int columns);
/// `count` copies of `glyph`, none for a negative count.
[[nodiscard]] std::string repeat(const std::string& glyph, int count);
/// Text without our escape sequences, made printable and broken at blanks so that no line is wider than `columns`, unless a single word is.
/// At least one line.
[[nodiscard]] std::vector<std::string> wrap(const std::string& given, int columns);

/// Lines of text behind a label, further ones as far in as the first.
[[nodiscard]] std::string hanging(const std::string& label, const std::string& text, const TextStyle& style);

/// A line with a title, dim rule to the full width.
[[nodiscard]] std::string heading(const TextStyle& style, const std::string& title);

/// Columns that names of devices may take at the left of a picture.
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
  /// A row without trailing blanks.
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
