#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/plan/plan.h"
#include "profiler/base/runtime.h"
#include "profiler/trace/statistics/verdict.h"
#include "profiler/trace/values/profile.h"
#include "profiler/trace/values/training_spec.h"

namespace mptune {

/// What was measured of a plan, in the form that a plan file stores.
struct MeasuredStep {
  double step_s = 0;
  std::optional<Interval> step_ci95_s;  ///< empty for fewer than kLeastForInterval samples
  int step_samples = 0;
  std::vector<std::int64_t> peak_bytes;
  Verdict verdict = Verdict::unknown;
  std::string speedup_over;  ///< name of the baseline; "" where none was measured
  Speedup speedup;           ///< files of earlier versions lack its pairs and their range
};

struct PredictedStep {
  double step_s = 0;
  double lower_bound_s = 0;
  std::vector<std::int64_t> peak_bytes;
  Runtime runtime = Runtime::mptune;  ///< whose rules of sending and receiving the step has
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

/// Returns the module paths of each stage of a plan; the lists are empty where `layers` are not known.
[[nodiscard]] std::vector<std::vector<std::string>> stage_modules(const Plan& plan, const std::vector<ProfileLayer>& layers);

/// Checks the file's module names against `layers`, those of the model that the plan was made for. Throws Error, with `where` naming the
/// file, if a stage names a module of another stage's layers, or names modules in another order. Returns the first module that no layer
/// has, "" if there is none; the same model in another form may have it. Requires: the plan's stages cover exactly `layers`.
[[nodiscard]] std::string check_modules(const PlanFile& file, const std::vector<ProfileLayer>& layers, const std::string& where);

/// Returns a file of this plan, with module names; `created` has the form of PlanFile::created.
[[nodiscard]] PlanFile new_plan_file(const Plan& plan, const std::vector<ProfileLayer>& layers, const Fingerprint& fingerprint,
                                     const std::string& created);

/// Returns the first 12 hex digits of the SHA-256 of the plan's canonical JSON (the object `plan` of a file without module names).
[[nodiscard]] std::string plan_key(const Plan& plan);

/// Returns the object `plan` of the file format as JSON text; `modules` may be empty.
[[nodiscard]] std::string plan_to_json(const Plan& plan, const std::vector<std::vector<std::string>>& modules);
/// The inverse of plan_to_json(). Checks that redundant fields agree. Throws Error with `where` naming the source.
[[nodiscard]] Plan plan_from_json(const std::string& text, const std::string& where);

[[nodiscard]] std::string to_json(const PlanFile& file);
/// Reads the text of a plan file. Throws Error where it is not JSON, truncated, of another schema or of a newer major version (remedy:
/// upgrade), has wrong types, redundant fields that disagree, or an invalid plan or schedule. Ignores unknown keys.
[[nodiscard]] PlanFile parse_plan_file(const std::string& text, const std::string& where);

/// Reads a plan file of at most 64 MiB. Throws Error.
[[nodiscard]] PlanFile load_plan_file(const std::string& path);
/// Does the same as load_plan_file(), but reads the path in the environment variable `MPTUNE_PLAN` instead where that is set and not empty.
[[nodiscard]] PlanFile load_plan(const std::string& path);
/// Writes to a temporary name beside `path`, syncs and renames. Replaces an existing file only if it is a plan file of ours, or with
/// `force`. Throws Error for a full disk (environment) and for a read-only folder (usage).
void save_plan_file(const PlanFile& file, const std::string& path, bool force);

}  // namespace mptune
