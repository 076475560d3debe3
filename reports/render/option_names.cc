#include "reports/render/option_names.h"

#include <algorithm>

namespace mptune::reports {
namespace {

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) text.replace(at, from.size(), to);
}

}  // namespace

std::string option_of(planner::Field field) {
  if (field == planner::Field::virtual_stages) return "--virtual";
  std::string name = planner::field_name(field);
  std::ranges::replace(name, '_', '-');
  return "--" + name;
}

std::string option_text(const planner::FieldValue& value) {
  return value.value.empty() ? "no " + option_of(value.field) + " option" : option_of(value.field) + " " + value.value;
}

std::vector<std::string> option_texts(const std::vector<planner::FieldValue>& values) {
  std::vector<std::string> texts;
  for (const planner::FieldValue& value : values) texts.push_back(option_text(value));
  return texts;
}

std::string with_option_names(const std::string& text) {
  std::string named = text;
  for (const auto& [field, name] : planner::kFields) replace_all(named, "`" + std::string(name) + "`", option_of(field));
  return named;
}

Error with_option_names(const Error& error) {
  const auto* at_field = dynamic_cast<const planner::FieldError*>(&error);
  const std::string where = at_field != nullptr ? option_of(at_field->field()) : with_option_names(error.where());
  return {with_option_names(error.problem()), where, with_option_names(error.remedy()), error.code()};
}

}  // namespace mptune::reports
