#include "profiler/trace/store/rows.h"

#include "profiler/trace/store/tables.h"

namespace mptune::profiler {

BulkInsert::BulkInsert(SQLite::Database& database, const std::string& head, const std::string& row)
    : database_(database), head_(head), row_(row), full_(database, sql(kRowsPerStatement)) {}

std::string BulkInsert::sql(int rows) const {
  std::string text = head_ + " VALUES " + row_;
  for (int i = 1; i < rows; ++i) text.append(", ").append(row_);
  return text;
}

void BulkInsert::run(SQLite::Statement& statement) {
  int index = 0;
  for (const Value& value : values_)
    if (value)
      statement.bind(++index, *value);
    else
      statement.bind(++index);
  statement.exec();
  statement.reset();
}

void BulkInsert::flush() {
  if (rows_ == kRowsPerStatement) {
    run(full_);
  } else if (rows_ > 0) {
    SQLite::Statement rest(database_, sql(rows_));
    run(rest);
  }
  values_.clear();
  rows_ = 0;
}

Rows::Rows(SQLite::Database& database, const std::string& sql) : statement_(database, sql) {}

std::int64_t Rows::integer(int column) {
  const SQLite::Column value = statement_.getColumn(column);
  if (!value.isInteger()) refuse(column, "an integer");
  return value.getInt64();
}

double Rows::real(int column) {
  const SQLite::Column value = statement_.getColumn(column);
  if (!value.isFloat() && !value.isInteger()) refuse(column, "a number");
  return value.getDouble();
}

std::string Rows::text(int column) {
  const SQLite::Column value = statement_.getColumn(column);
  if (!value.isText()) refuse(column, "text");
  return value.getString();
}

void Rows::refuse(int column, const std::string& wanted) {
  throw BadContent(std::string("the column ") + statement_.getColumn(column).getName() + " does not hold " + wanted);
}

}  // namespace mptune::profiler
