#pragma once

#include <concepts>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace mptune {

/// Where a JSON text comes from, and the words of errors about it.
struct JsonSource {
  std::string file;    ///< where the text was read, as errors name it
  std::string fault;   ///< start of every message, such as "the exported program is damaged: "; may be empty
  std::string remedy;  ///< remedy of every error
};

/// Limits on untrusted JSON.
struct JsonLimits {
  int depth = 0;
  std::int64_t values = 0;
};

/// Throws Error if `text` is not JSON or exceeds `limits`.
[[nodiscard]] nlohmann::json parse_json(const std::string& text, const JsonSource& source, std::optional<JsonLimits> limits = {});

/// A value in a JSON document, with its path: "plan.stages[0].layers". Each member throws Error with that path if the value has another
/// type. Refers to the document and the source, which must outlive it; copies are cheap.
class JsonField {
 public:
  JsonField(const nlohmann::json& document, const JsonSource& source, std::string path = "")
      : value_(&document), source_(&source), path_(std::move(path)) {}

  /// A member of an object; it may be null.
  [[nodiscard]] JsonField at(const std::string& key) const;
  /// Returns a member of an object; nullopt if the member is absent or null.
  [[nodiscard]] std::optional<JsonField> find(const std::string& key) const;
  [[nodiscard]] bool has(const std::string& key) const { return find(key).has_value(); }
  /// Returns the name and the value of the only member of an object (a union tagged by name).
  [[nodiscard]] std::pair<std::string, JsonField> only() const;

  [[nodiscard]] bool is_null() const { return value_->is_null(); }
  [[nodiscard]] bool is_object() const { return value_->is_object(); }
  [[nodiscard]] bool is_text() const { return value_->is_string(); }
  [[nodiscard]] const std::string& text() const;
  [[nodiscard]] bool truth() const;
  /// A finite number.
  [[nodiscard]] double number() const;
  /// An integer that fits into `T`.
  template <std::integral T = std::int64_t>
  [[nodiscard]] T whole() const;
  [[nodiscard]] std::int64_t whole(std::int64_t least, std::int64_t most) const;

  /// Calls `visit(element)` for each element of a list.
  template <class Visit>
  void each(Visit visit) const {
    require_list();
    for (std::size_t i = 0; i < value_->size(); ++i) visit(JsonField((*value_)[i], *source_, path_ + "[" + std::to_string(i) + "]"));
  }
  /// Calls `visit(key, member)` for each member of an object.
  template <class Visit>
  void each_member(Visit visit) const {
    require_object();
    for (const auto& [key, value] : value_->items()) visit(key, JsonField(value, *source_, path_of(key)));
  }
  /// The results of `read(element)` for each element of a list.
  template <class Read>
  [[nodiscard]] auto list(Read read) const {
    std::vector<std::remove_cvref_t<std::invoke_result_t<Read, const JsonField&>>> values;
    each([&](const JsonField& element) { values.push_back(read(element)); });
    return values;
  }
  [[nodiscard]] std::vector<int> integers() const;
  [[nodiscard]] std::vector<double> numbers() const;
  [[nodiscard]] std::vector<std::string> texts() const;

  /// Throws Error: "plan.stages must be a list", for the predicate "must be a list".
  [[noreturn]] void refuse(const std::string& predicate) const;
  /// Throws Error: "plan.stages: device 3 is not there", for the sentence "device 3 is not there".
  [[noreturn]] void fail(const std::string& sentence) const;
  [[nodiscard]] const JsonSource& source() const { return *source_; }

 private:
  [[nodiscard]] std::string path_of(const std::string& key) const;
  void require_object() const;
  void require_list() const;
  [[nodiscard]] std::uint64_t whole_bits(bool& negative) const;

  const nlohmann::json* value_;
  const JsonSource* source_;
  std::string path_;
};

template <std::integral T>
T JsonField::whole() const {
  bool negative = false;
  const std::uint64_t bits = whole_bits(negative);
  const bool fits = negative ? std::in_range<T>(static_cast<std::int64_t>(bits)) : std::in_range<T>(bits);
  if (!fits) refuse("is out of range");
  return static_cast<T>(bits);
}

}  // namespace mptune
