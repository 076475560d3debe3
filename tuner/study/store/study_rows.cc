#include "tuner/study/store/study_rows.h"

#include <algorithm>
#include <utility>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/printable.h"
#include "profiler/base/text.h"

namespace mptune::tuner {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 60;
constexpr std::size_t kLongestName = 200;
constexpr std::size_t kLongestWords = 10'000;
constexpr std::size_t kShown = 40;

std::string query(const std::string& table, const std::vector<std::string>& columns, int keys) {
  const std::vector<std::string> order(columns.begin(), columns.begin() + keys);
  return "SELECT " + join(columns, ", ") + " FROM " + table + " ORDER BY " + join(order, ", ");
}

// Returns the number as text: "0", "1e-09".
std::string text_of(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", number);
  return text;
}

}  // namespace

void refuse_study(const std::string& what, const std::string& place, const std::string& folder) {
  throw Error("the study is damaged: " + what, folder + "/study.sqlite, " + place,
              "put a copy of the file in its place, or start a new one with another -o");
}

StudyRows::StudyRows(SQLite::Database& database, const std::string& folder, const std::string& table, std::vector<std::string> columns,
                     int keys)
    : folder_(folder), table_(table), columns_(std::move(columns)), keys_(keys), statement_(database, query(table, columns_, keys)) {}

int StudyRows::whole(int column, int least, int most) {
  return static_cast<int>(integer(column, least, most));
}

std::int64_t StudyRows::bytes(int column) {
  return integer(column, 0, kMostBytes);
}

std::int64_t StudyRows::integer(int column, std::int64_t least, std::int64_t most) {
  const SQLite::Column value = statement_.getColumn(column);
  if (value.isInteger() && value.getInt64() >= least && value.getInt64() <= most) return value.getInt64();
  refuse(column, "not a whole number from " + std::to_string(least) + " to " + std::to_string(most));
}

double StudyRows::number(int column, double least, double most) {
  const SQLite::Column value = statement_.getColumn(column);
  const bool is_number = value.isFloat() || value.isInteger();
  if (is_number && value.getDouble() >= least && value.getDouble() <= most) return value.getDouble();
  refuse(column, "not a number from " + text_of(least) + " to " + text_of(most));
}

std::string StudyRows::text(int column) {
  if (!statement_.getColumn(column).isText()) refuse(column, "not a text");
  return statement_.getColumn(column).getString();
}

std::string StudyRows::name(int column) {
  std::string name = text(column);
  if (name.empty() || name.size() > kLongestName || printable(name) != name)
    refuse(column, "not a name of 1 to " + std::to_string(kLongestName) + " bytes without control characters");
  return name;
}

std::string StudyRows::words(int column) {
  return printable(text(column)).substr(0, kLongestWords);
}

void StudyRows::refuse(int column, const std::string& wanted) {
  refuse_study(columns_[as_index(column)] + " is " + shown(column) + ", " + wanted, place(), folder_);
}

std::string StudyRows::place() {
  std::string place = "table " + table_;
  for (int key = 0; key < keys_; ++key) place += ", " + columns_[as_index(key)] + " " + shown(key);
  return place;
}

std::string StudyRows::shown(int column) {
  const SQLite::Column value = statement_.getColumn(column);
  if (value.isNull()) return "NULL";
  std::string text = printable(value.getString().substr(0, kShown));
  std::ranges::replace_if(
      text, [](unsigned char letter) { return letter >= 0x80; }, '?');
  return value.isText() || value.isBlob() ? "'" + text + "'" : text;
}

}  // namespace mptune::tuner
