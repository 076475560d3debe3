#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "planner/plan/plan.h"
#include "profiler/base/json_field.h"
#include "profiler/trace/statistics/samples.h"
#include "profiler/trace/values/profile.h"

namespace mptune::planner {

/// JSON with keys in the order of the documented format.
using Json = nlohmann::ordered_json;

/// Returns the object `plan` of a plan file. Without `modules` the module names are left out, as in the canonical form.
[[nodiscard]] Json plan_object(const Plan& plan, const std::vector<std::vector<std::string>>& modules);

/// Returns the object `fingerprint` of a plan file.
[[nodiscard]] Json fingerprint_object(const Fingerprint& fingerprint);

/// Returns [low, high], or null where there is no interval.
[[nodiscard]] Json interval_json(const std::optional<Interval>& interval);

struct PlanWithModules {
  Plan plan;
  std::vector<std::vector<std::string>> modules;  ///< per stage; empty where the object names none
};
/// The inverse of plan_object(). Checks that redundant fields agree and that plan and schedule are valid. Throws Error.
[[nodiscard]] PlanWithModules plan_from_object(const JsonField& object);

/// Reads a name or a label, which is short and without control characters. Throws Error.
[[nodiscard]] std::string label_of(const JsonField& field);
[[nodiscard]] std::vector<std::string> labels_of(const JsonField& field);

/// Returns the source that errors name, for plan files and for plans in other files.
[[nodiscard]] JsonSource plan_source(const std::string& file);
/// Parses text of unknown origin: at most 64 levels deep and 4 million values. Throws Error.
[[nodiscard]] nlohmann::json parse_plan_json(const std::string& text, const JsonSource& source);

}  // namespace mptune::planner
