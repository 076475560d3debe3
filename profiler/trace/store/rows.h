#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace mptune::profiler {

/// One prepared INSERT. Each call runs it with a value for every `?`; strings are not copied and must live until the call returns.
class Insert {
 public:
  Insert(SQLite::Database& database, const std::string& sql) : statement_(database, sql) {}

  template <class... Values>
  void operator()(const Values&... values) {
    int index = 0;
    (bind(++index, values), ...);
    statement_.exec();
    statement_.reset();
  }

 private:
  void bind(int index, const std::string& value) { statement_.bindNoCopy(index, value); }
  void bind(int index, const char* value) { statement_.bindNoCopy(index, value); }
  void bind(int index, double value) { statement_.bind(index, value); }
  template <class Integer>
  requires std::is_integral_v<Integer>
  void bind(int index, const Integer& value) { statement_.bind(index, static_cast<std::int64_t>(value)); }
  template <class Value>
  void bind(int index, const std::optional<Value>& value) {
    if (value)
      bind(index, *value);
    else
      statement_.bind(index);
  }
  /// Deleted, since a value converted to a string here would die before the statement runs.
  template <class Other>
  void bind(int index, const Other& value) = delete;

  SQLite::Statement statement_;
};

/// INSERT of many rows of integers and NULLs, 50 per statement: a statement per row would cost as much as the row itself.
class BulkInsert {
 public:
  /// `head` is the statement up to VALUES, `row` is "(?, ?, 0, ...)". Each call adds one row, with a value for every `?`.
  BulkInsert(SQLite::Database& database, const std::string& head, const std::string& row);
  BulkInsert(const BulkInsert&) = delete;
  BulkInsert& operator=(const BulkInsert&) = delete;

  template <class... Values>
  void operator()(const Values&... values) {
    (values_.push_back(stored(values)), ...);
    if (++rows_ == kRowsPerStatement) flush();
  }

  /// Writes buffered rows. Call after the last row.
  void flush();

 private:
  static constexpr int kRowsPerStatement = 50;
  using Value = std::optional<std::int64_t>;

  template <class Integer>
  static Value stored(Integer value) {
    return static_cast<std::int64_t>(value);
  }
  static Value stored(const Value& value) { return value; }
  [[nodiscard]] std::string sql(int rows) const;
  void run(SQLite::Statement& statement);

  SQLite::Database& database_;
  std::string head_;
  std::string row_;
  SQLite::Statement full_;
  std::vector<Value> values_;
  int rows_ = 0;
};

/// Rows of a query on an untrusted file. Every value is read with its expected type; any other type throws BadContent.
/// `while (rows.next()) use(rows.integer(0), rows.text(1));`
class Rows {
 public:
  Rows(SQLite::Database& database, const std::string& sql);

  bool next() { return statement_.executeStep(); }
  [[nodiscard]] bool null(int column) { return statement_.getColumn(column).isNull(); }
  [[nodiscard]] std::int64_t integer(int column);
  [[nodiscard]] std::int64_t integer_or(int column, std::int64_t fallback) { return null(column) ? fallback : integer(column); }
  [[nodiscard]] double real(int column);
  [[nodiscard]] std::string text(int column);

  /// Returns an integer as a narrower type; throws BadContent if it does not fit.
  template <class Integer>
  [[nodiscard]] Integer as(int column) {
    const std::int64_t value = integer(column);
    if (value < std::numeric_limits<Integer>::min() || value > std::numeric_limits<Integer>::max()) refuse(column, "a number of this size");
    return static_cast<Integer>(value);
  }

 private:
  [[noreturn]] void refuse(int column, const std::string& wanted);

  SQLite::Statement statement_;
};

}  // namespace mptune::profiler
