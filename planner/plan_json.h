#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "planner/plan.h"
#include "profiler/base/json_field.h"
#include "profiler/statistics/samples.h"
#include "profiler/trace/profile.h"

namespace mptune::planner {

/// Keys in the order of the documented format.
using Json = nlohmann::ordered_json;

/// The object `plan` of a plan file; without `modules` the module names are left out, as in the canonical form.
[[nodiscard]] Json plan_object(const Plan& plan, const std::vector<std::vector<std::string>>& modules);

/// The object `fingerprint` of a plan file.
[[nodiscard]] Json fingerprint_object(const Fingerprint& fingerprint);

/// [low, high]; null where there is none.
[[nodiscard]] Json interval_json(const std::optional<Interval>& interval);

struct PlanWithModules {
  Plan plan;
  std::vector<std::vector<std::string>> modules;  ///< per stage; empty where the object names none
};
/// Inverse of plan_object. Redundant fields are checked for agreement, plan and schedule for validity. Throws Error.
[[nodiscard]] PlanWithModules plan_from_object(const JsonField& object);

/// A name or a label: short, without control characters. Throws Error.
[[nodiscard]] std::string label_of(const JsonField& field);
[[nodiscard]] std::vector<std::string> labels_of(const JsonField& field);

/// Of plan files and plans in other files.
[[nodiscard]] JsonSource plan_source(const std::string& file);
/// Parses text of unknown origin: at most 64 levels deep and 4 million values. Throws Error.
[[nodiscard]] nlohmann::json parse_plan_json(const std::string& text, const JsonSource& source);

}  // namespace mptune::planner
