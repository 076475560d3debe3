#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/plan.h"
#include "profiler/statistics/verdict.h"
#include "profiler/trace/profile.h"
#include "profiler/trace/training_spec.h"

namespace mptune {

/// What was measured of a plan, as a plan file carries it.
struct MeasuredStep {
  double step_s = 0;
  std::optional<Interval> step_ci95_s;  ///< empty for fewer than kLeastForInterval samples
  int step_samples = 0;
  std::vector<std::int64_t> peak_bytes;
  Verdict verdict = Verdict::unknown;
  std::string speedup_over;  ///< name of the baseline, "" where none was measured
  Speedup speedup;           ///< of files of earlier versions without its pairs and their range
};

struct PredictedStep {
  double step_s = 0;
  double lower_bound_s = 0;
  std::vector<std::int64_t> peak_bytes;
};

struct AlternativePlan {
  std::string reason;
  Plan plan;
};

/// Content of a `*.plan.json` file, schema mptune.plan/1.
struct PlanFile {
  Plan plan;
  std::vector<std::vector<std::string>> modules;  ///< module paths of each stage; may be empty when not known
  Fingerprint fingerprint;
  std::string created;  ///< UTC, "2026-11-21T12:00:00Z"
  std::string study;    ///< "sha256:..." of the study's identity, "" without one
  int trial = -1;
  std::optional<PredictedStep> predicted;
  std::optional<MeasuredStep> measured;
  std::vector<AlternativePlan> alternatives;
  TrainingSpec training;  ///< what the plan was made for; files are stored without their folders; empty in files of earlier versions
};

/// Module paths of each stage of a plan; empty lists where `layers` are not known.
[[nodiscard]] std::vector<std::vector<std::string>> stage_modules(const Plan& plan, const std::vector<ProfileLayer>& layers);

/// Throws Error, with `where` naming the file, if a stage names a module of another stage's layers, or names modules in another order.
/// Returns the first module that no layer has, "" if there is none: the same model in another form may have it. `layers`: of the model that
/// the plan was made for. Requires: the plan is one of so many layers.
[[nodiscard]] std::string check_modules(const PlanFile& file, const std::vector<ProfileLayer>& layers, const std::string& where);

/// A file of this plan, with module names; `created` as PlanFile has it.
[[nodiscard]] PlanFile new_plan_file(const Plan& plan, const std::vector<ProfileLayer>& layers, const Fingerprint& fingerprint,
                                     const std::string& created);

/// First 12 hex digits of the SHA-256 of the plan's canonical JSON (the object `plan` of a file without module names).
[[nodiscard]] std::string plan_key(const Plan& plan);

/// The object `plan` of the file format, as JSON text; `modules` may be empty.
[[nodiscard]] std::string plan_to_json(const Plan& plan, const std::vector<std::vector<std::string>>& modules);
/// Inverse. Redundant fields are checked for agreement. Throws Error with `where` naming the source.
[[nodiscard]] Plan plan_from_json(const std::string& text, const std::string& where);

[[nodiscard]] std::string to_json(const PlanFile& file);
/// Throws Error on: not JSON, truncated, another schema, a newer major version (remedy: upgrade), wrong types, redundant fields that
/// disagree, an invalid plan or schedule. Unknown keys are ignored.
[[nodiscard]] PlanFile parse_plan_file(const std::string& text, const std::string& where);

/// Reads a plan file; at most 64 MiB. Throws Error.
[[nodiscard]] PlanFile load_plan_file(const std::string& path);
/// The same, with `MPTUNE_PLAN` (a path in the environment) taking the place of `path` where it is set and not empty.
[[nodiscard]] PlanFile load_plan(const std::string& path);
/// Writes to a temporary name beside `path`, syncs, renames. An existing file is replaced only if it is a plan file of ours or `force`.
/// Throws Error: a full disk (environment), a read-only folder (usage).
void save_plan_file(const PlanFile& file, const std::string& path, bool force);

}  // namespace mptune
