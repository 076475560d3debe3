#include "mptune/profiler/store/rows.h"

#include "mptune/profiler/store/tables.h"

namespace mptune {

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

}  // namespace mptune
