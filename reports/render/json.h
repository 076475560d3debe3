#pragma once

#include <string>
#include <vector>

#include "planner/plan/file/plan_file.h"
#include "planner/plan/file/plan_json.h"
#include "reports/values/report.h"
#include "tuner/worker/messages.h"

namespace mptune::reports {

/// Returns the text of one object, on one line, with a line break at its end. Characters that would steer a terminal are escaped, and bytes
/// that are no UTF-8 are replaced.
[[nodiscard]] std::string dump(const planner::Json& json);

/// Returns an empty result of a command: {"schema": "mptune.COMMAND/1"}.
[[nodiscard]] planner::Json result_of(const std::string& command);
/// Returns the object of a failure.
[[nodiscard]] planner::Json error_json(const std::string& what, const std::string& where, const std::string& remedy, int exit_code);

/// Adds `step_s`, `step_ci95_s`, `step_samples`. Requires: `step_s` is not empty.
void put_step(planner::Json& json, const Samples& step_s);
[[nodiscard]] planner::Json to_json_object(const Prediction& prediction);
[[nodiscard]] planner::Json to_json_object(const Speedup& speedup);
[[nodiscard]] planner::Json to_json_object(const TraceQuality& quality);
[[nodiscard]] planner::Json devices_json(const TraceReport& report);
/// Returns the exact nanoseconds of every step and device.
[[nodiscard]] planner::Json steps_json(const profiler::Breakdown& breakdown);
/// Returns per device: peak, cap (null: not known), samples over the step, contents of the peak (null: not known).
[[nodiscard]] planner::Json memory_json(const std::vector<MemoryRow>& memory);
[[nodiscard]] planner::Json advice_json(const std::vector<planner::Advice>& advice);
[[nodiscard]] planner::Json stalls_json(const std::vector<StallRow>& stalls);
/// Adds what every command says of a recording: devices, steps, bubbles, quality, advice, stalls, critical path, use of links, clock error.
void put_trace(planner::Json& json, const TraceReport& report);
[[nodiscard]] planner::Json layers_json(const Profile& profile);
[[nodiscard]] planner::Json links_json(const Profile& profile);
/// Returns everything of `tune` but its schema. `layers` name the modules of plans.
[[nodiscard]] planner::Json study_json(const StudyReport& report, const std::vector<ProfileLayer>& layers);

}  // namespace mptune::reports
