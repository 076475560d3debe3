#include <cmath>
#include <limits>

#include "mptune/planner/plan_json.h"
#include "mptune/profiler/base/error.h"

namespace mptune {
namespace {

constexpr int kDeepest = 64;
constexpr std::int64_t kMostValues = 4'000'000;

std::int64_t whole_number(const JsonObject& object, const char* key, const Json& value, std::int64_t least, std::int64_t most) {
  if (!value.is_number_integer()) object.refuse(key, "must hold whole numbers");
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(most)) object.refuse(key, "is too large");
  const auto number = value.get<std::int64_t>();
  if (number < least || number > most) object.refuse(key, "is out of range");
  return number;
}

int integer_of(const JsonObject& object, const char* key, const Json& value) {
  return static_cast<int>(whole_number(object, key, value, std::numeric_limits<int>::min(), std::numeric_limits<int>::max()));
}

double number_of(const JsonObject& object, const char* key, const Json& value) {
  if (!value.is_number()) object.refuse(key, "must hold numbers");
  const auto number = value.get<double>();
  if (!std::isfinite(number)) object.refuse(key, "is not finite");
  return number;
}

std::string text_of(const JsonObject& object, const char* key, const Json& value) {
  if (!value.is_string()) object.refuse(key, "must hold text");
  return value.get<std::string>();
}

template <typename Read>
auto all_of(const JsonObject& object, const char* key, Read read) {
  std::vector<decltype(read(object, key, Json()))> values;
  for (const Json& value : object.array(key)) values.push_back(read(object, key, value));
  return values;
}

}  // namespace

Json parse_json(const std::string& text, const std::string& where) {
  std::int64_t values = 0;
  const auto limit = [&](int depth, Json::parse_event_t, Json&) {
    if (depth > kDeepest || ++values > kMostValues)
      throw Error("the JSON is too deep or too long to be a plan", where, "use a file that mptune wrote");
    return true;
  };
  try {
    return Json::parse(text, limit);
  } catch (const Json::exception& problem) {
    const std::string at =
        dynamic_cast<const Json::parse_error*>(&problem) != nullptr
            ? " (byte " + std::to_string(static_cast<const Json::parse_error&>(problem).byte) + " of " + std::to_string(text.size()) + ")"
            : "";
    throw Error("not JSON, or cut short" + at, where, "use a whole plan file; write it again with mptune tune or mptune plan");
  }
}

JsonObject::JsonObject(const Json& value, std::string path, const std::string& where)
    : value_(value), path_(std::move(path)), where_(where) {
  if (!value_.is_object())
    throw Error((path_.empty() ? "the file" : path_) + " is not a JSON object", where_, "use a file that mptune wrote");
}

std::string JsonObject::path_of(const char* key) const {
  return path_.empty() ? key : path_ + "." + key;
}

void JsonObject::refuse(const char* key, const std::string& problem) const {
  throw Error(path_of(key) + " " + problem, where_, "correct it, or use a file that mptune wrote");
}

const Json* JsonObject::find(const char* key) const {
  const auto found = value_.find(key);
  return found == value_.end() || found->is_null() ? nullptr : &*found;
}

const Json& JsonObject::at(const char* key) const {
  const Json* found = find(key);
  if (found == nullptr) refuse(key, "is missing");
  return *found;
}

const Json& JsonObject::array(const char* key) const {
  const Json& found = at(key);
  if (!found.is_array()) refuse(key, "must be a list");
  return found;
}

int JsonObject::integer(const char* key) const {
  return integer_of(*this, key, at(key));
}
double JsonObject::number(const char* key) const {
  return number_of(*this, key, at(key));
}
std::string JsonObject::text(const char* key) const {
  return text_of(*this, key, at(key));
}
std::string JsonObject::text_or(const char* key, const std::string& absent) const {
  return find(key) == nullptr ? absent : text(key);
}
std::vector<int> JsonObject::integers(const char* key) const {
  return all_of(*this, key, integer_of);
}
std::vector<double> JsonObject::numbers(const char* key) const {
  return all_of(*this, key, number_of);
}
std::vector<std::string> JsonObject::texts(const char* key) const {
  return all_of(*this, key, text_of);
}

std::vector<std::int64_t> JsonObject::byte_counts(const char* key) const {
  return all_of(*this, key, [](const JsonObject& object, const char* name, const Json& value) {
    return whole_number(object, name, value, 0, std::int64_t{1} << 60);
  });
}

JsonObject JsonObject::object(const char* key) const {
  return {at(key), path_of(key), where_};
}

}  // namespace mptune
