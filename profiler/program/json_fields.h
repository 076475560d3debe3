#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "mptune/profiler/base/error.h"

namespace mptune {

/// JSON of a file that nobody vouches for, with the place in it for messages. Each member throws Error where the value is not what it asks
/// for. Refers to the document; copy freely while it lives.
class JsonField {
 public:
  JsonField(const nlohmann::json& value, const std::string& file, std::string place)
      : value_(&value), file_(&file), place_(std::move(place)) {}

  [[nodiscard]] bool has(const char* key) const { return value_->is_object() && value_->contains(key) && !(*value_)[key].is_null(); }
  [[nodiscard]] JsonField at(const char* key) const {
    if (!has(key)) refuse(std::string("'") + key + "' is missing");
    return {(*value_)[key], *file_, place_ + "/" + key};
  }
  /// The one member of an object that stands for one of several kinds, by name.
  [[nodiscard]] std::pair<std::string, JsonField> only() const {
    if (!value_->is_object() || value_->size() != 1) refuse("not one of a kind");
    const auto member = value_->begin();
    return {member.key(), JsonField(member.value(), *file_, place_ + "/" + member.key())};
  }

  template <class Visit>
  void each(const Visit& visit) const {
    if (!value_->is_array()) refuse("not a list");
    for (std::size_t i = 0; i < value_->size(); ++i) visit(JsonField((*value_)[i], *file_, place_ + "/" + std::to_string(i)));
  }
  template <class Visit>
  void each_member(const Visit& visit) const {
    if (!value_->is_object()) refuse("not an object");
    for (const auto& [key, member] : value_->items()) visit(key, JsonField(member, *file_, place_ + "/" + key));
  }

  [[nodiscard]] const std::string& text() const {
    if (!value_->is_string()) refuse("not a string");
    return value_->get_ref<const std::string&>();
  }
  [[nodiscard]] std::int64_t whole() const {
    if (!value_->is_number_integer()) refuse("not an integer");
    if (value_->is_number_unsigned() && value_->get<std::uint64_t>() > INT64_MAX) refuse("beyond 64 bits");
    return value_->get<std::int64_t>();
  }
  /// Numbers beyond JSON's are written as strings: "Infinity", "-Infinity", "NaN".
  [[nodiscard]] double number() const;
  [[nodiscard]] bool truth() const {
    if (!value_->is_boolean()) refuse("neither true nor false");
    return value_->get<bool>();
  }
  [[nodiscard]] const std::string& place() const { return place_; }

  [[noreturn]] void refuse(const std::string& what) const;

 private:
  const nlohmann::json* value_;
  const std::string* file_;
  std::string place_;
};

/// Throws Error for what is no JSON.
[[nodiscard]] nlohmann::json parse_program_json(const std::string& text, const std::string& file);

}  // namespace mptune
