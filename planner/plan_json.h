#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "mptune/planner/plan.h"
#include "mptune/profiler/trace/profile.h"

namespace mptune {

/// Keys in the order of the documented format.
using Json = nlohmann::ordered_json;

/// The object `plan` of a plan file; without `modules` the module names are left out, as in the canonical form.
[[nodiscard]] Json plan_object(const Plan& plan, const std::vector<std::vector<std::string>>& modules);

/// The object `fingerprint` of a plan file.
[[nodiscard]] Json fingerprint_object(const Fingerprint& fingerprint);

struct PlanWithModules {
  Plan plan;
  std::vector<std::vector<std::string>> modules;  ///< per stage; empty where the object names none
};
/// Inverse of plan_object. Redundant fields are checked for agreement, plan and schedule for validity. Throws Error.
[[nodiscard]] PlanWithModules plan_from_object(const Json& object, const std::string& where);

/// Parses text of unknown origin: at most 64 levels deep and 4 million values. Throws Error.
[[nodiscard]] Json parse_json(const std::string& text, const std::string& where);

/// Reads members of one JSON object; throws Error that names the key as "plan.stages[0].layers".
class JsonObject {
 public:
  /// Both arguments must outlive this. Throws Error if `value` is no object.
  JsonObject(const Json& value, std::string path, const std::string& where);

  /// nullptr where the key is absent or null.
  [[nodiscard]] const Json* find(const char* key) const;
  [[nodiscard]] const Json& at(const char* key) const;
  [[nodiscard]] int integer(const char* key) const;
  [[nodiscard]] double number(const char* key) const;
  [[nodiscard]] std::string text(const char* key) const;
  [[nodiscard]] std::string text_or(const char* key, const std::string& absent) const;
  [[nodiscard]] std::vector<int> integers(const char* key) const;
  [[nodiscard]] std::vector<std::int64_t> byte_counts(const char* key) const;
  [[nodiscard]] std::vector<double> numbers(const char* key) const;
  [[nodiscard]] std::vector<std::string> texts(const char* key) const;
  [[nodiscard]] const Json& array(const char* key) const;
  [[nodiscard]] JsonObject object(const char* key) const;
  [[noreturn]] void refuse(const char* key, const std::string& problem) const;
  [[nodiscard]] std::string path_of(const char* key) const;
  [[nodiscard]] const std::string& where() const { return where_; }

 private:
  const Json& value_;
  std::string path_;
  const std::string& where_;
};

}  // namespace mptune
