#include "profiler/base/json_field.h"

#include <cmath>

#include "profiler/base/error.h"

namespace mptune {

namespace {

using Json = nlohmann::json;

constexpr std::size_t kLongestKey = 80;  // in a message

[[noreturn]] void refuse_json(const JsonSource& source, const std::string& what) {
  throw Error(source.fault + what, source.file, source.remedy);
}

}  // namespace

Json parse_json(const std::string& text, const JsonSource& source, std::optional<JsonLimits> limits) {
  std::int64_t values = 0;
  const auto limit = [&](int depth, Json::parse_event_t, Json&) {
    if (depth > limits->depth || ++values > limits->values) refuse_json(source, "the JSON is too deep or too long");
    return true;
  };
  try {
    return limits ? Json::parse(text, limit) : Json::parse(text);
  } catch (const Json::parse_error& problem) {
    refuse_json(source, "not JSON, or cut short (byte " + std::to_string(problem.byte) + " of " + std::to_string(text.size()) + ")");
  } catch (const Json::exception&) {
    refuse_json(source, "a number is out of range");
  }
}

JsonField JsonField::at(const std::string& key) const {
  require_object();
  const auto found = value_->find(key);
  if (found == value_->end()) JsonField(*value_, *source_, path_of(key)).refuse("is missing");
  return {*found, *source_, path_of(key)};
}

std::optional<JsonField> JsonField::find(const std::string& key) const {
  require_object();
  const auto found = value_->find(key);
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return JsonField(*found, *source_, path_of(key));
}

std::pair<std::string, JsonField> JsonField::only() const {
  if (!value_->is_object() || value_->size() != 1) refuse("must have one member");
  const auto member = value_->begin();
  return {member.key(), JsonField(member.value(), *source_, path_of(member.key()))};
}

const std::string& JsonField::text() const {
  if (!value_->is_string()) refuse("must be text");
  return value_->get_ref<const std::string&>();
}

bool JsonField::truth() const {
  if (!value_->is_boolean()) refuse("must be true or false");
  return value_->get<bool>();
}

double JsonField::number() const {
  if (!value_->is_number()) refuse("must be a number");
  const auto number = value_->get<double>();
  if (!std::isfinite(number)) refuse("is not finite");
  return number;
}

std::int64_t JsonField::whole(std::int64_t least, std::int64_t most) const {
  const auto number = whole();
  if (number < least || number > most) refuse("is out of range");
  return number;
}

std::uint64_t JsonField::whole_bits(bool& negative) const {
  if (!value_->is_number_integer()) refuse("must be a whole number");
  negative = !value_->is_number_unsigned() && value_->get<std::int64_t>() < 0;
  return negative ? static_cast<std::uint64_t>(value_->get<std::int64_t>()) : value_->get<std::uint64_t>();
}

std::vector<int> JsonField::integers() const {
  return list([](const JsonField& element) { return element.whole<int>(); });
}
std::vector<double> JsonField::numbers() const {
  return list([](const JsonField& element) { return element.number(); });
}
std::vector<std::string> JsonField::texts() const {
  return list([](const JsonField& element) { return element.text(); });
}

void JsonField::require_object() const {
  if (!value_->is_object()) refuse("is not a JSON object");
}
void JsonField::require_list() const {
  if (!value_->is_array()) refuse("must be a list");
}

std::string JsonField::path_of(const std::string& key) const {
  return (path_.empty() ? "" : path_ + ".") + key.substr(0, kLongestKey);
}

void JsonField::refuse(const std::string& predicate) const {
  refuse_json(*source_, (path_.empty() ? "the file" : path_) + " " + predicate);
}

void JsonField::fail(const std::string& sentence) const {
  refuse_json(*source_, (path_.empty() ? "" : path_ + ": ") + sentence);
}

}  // namespace mptune
