#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace mptune::tuner {

/// The longest step, and the longest time of anything else in a study [s].
inline constexpr double kLongestSeconds = 1e7;
/// The shortest step [s].
inline constexpr double kShortestStep = 1e-9;
inline constexpr int kLargestSeries = 1'000'000'000;

/// Throws Error (usage): "the study is damaged: `what`", in `place` ("table sample, trial 3") of the study in `folder`.
[[noreturn]] void refuse_study(const std::string& what, const std::string& place, const std::string& folder);

/// Rows of a table of a study, a file that anyone can damage or edit. Members that read a column throw Error (usage), which names table,
/// row and column, where the value has another type or is impossible.
class StudyRows {
 public:
  /// Reads `columns` of all rows, ordered by the first `keys` columns, which name a row in errors.
  StudyRows(SQLite::Database& database, const std::string& folder, const std::string& table, std::vector<std::string> columns, int keys);

  bool next() { return statement_.executeStep(); }
  [[nodiscard]] bool null(int column) { return statement_.getColumn(column).isNull(); }
  [[nodiscard]] int whole(int column, int least = 0, int most = std::numeric_limits<int>::max());
  [[nodiscard]] std::int64_t bytes(int column);
  [[nodiscard]] double number(int column, double least, double most);
  /// Reads a text that is not empty, short and without control characters.
  [[nodiscard]] std::string name(int column);
  [[nodiscard]] std::string text(int column);
  /// Reads a text for people: makes it printable, and cuts it where it is too long.
  [[nodiscard]] std::string words(int column);

  /// Throws Error: "the study is damaged: value_s is -1, `wanted`", with a text for `wanted` such as "not a number from 0 to 10".
  [[noreturn]] void refuse(int column, const std::string& wanted);
  /// Returns where the current row is: "table sample, trial 3, number 7".
  [[nodiscard]] std::string place();

 private:
  [[nodiscard]] std::string shown(int column);
  [[nodiscard]] std::int64_t integer(int column, std::int64_t least, std::int64_t most);

  std::string folder_;
  std::string table_;
  std::vector<std::string> columns_;
  int keys_;
  SQLite::Statement statement_;
};

}  // namespace mptune::tuner
