#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "planner/plan/numerics.h"
#include "planner/plan/parallelism.h"
#include "planner/plan/plan.h"
#include "profiler/trace/statistics/verdict.h"
#include "tuner/study/store/no_plan.h"
#include "tuner/trial/trial.h"

/// What a recommendation says, as facts with numbers. The facts are made where they are decided, and worded by
/// reports/render/recommendation_text.h.
namespace mptune::tuner {

// ---- why a plan is recommended ----
struct OnlyFinalist {};
struct FastestOf {
  int plans = 0;  ///< number of plans benchmarked interleaved
};
enum class TieBreak { less_memory, fewer_copies, familiar, smaller_prediction };
/// The plan is as fast as the fastest plan within what was measured, and was chosen for something else.
struct AsFastAs {
  Plan fastest;
  TieBreak by = TieBreak::less_memory;
};
struct FastestPipeline {};
struct FastestInHalfMemory {};
struct OverBaseline {
  std::string baseline;
  Speedup speedup;  ///< of the plan over the baseline
};
struct PredictedAndMeasured {
  double predicted_s = 0;
  double measured_s = 0;
};
struct LongestStage {
  int stage = 0;
};
using Reason =
    std::variant<OnlyFinalist, FastestOf, AsFastAs, FastestPipeline, FastestInHalfMemory, OverBaseline, PredictedAndMeasured, LongestStage>;

// ---- what follows from the measurements ----
/// A plan compared with the recommended one.
struct PlanBeside {
  Plan plan;
  double time_ratio = 1;    ///< its step over the recommended one
  double memory_ratio = 0;  ///< its largest peak over that of the recommended one; 0: not known
};
struct OnlyPlanMeasured {
  Plan plan;
};
struct FastestHere {
  std::string name;  ///< of the baseline, or "candidate"
  Plan plan;
  bool any_pipeline = false;             ///< a pipeline was measured
  std::optional<PlanBeside> pipeline{};  ///< the best pipeline, where that is another plan
  bool all_measured = true;              ///< false: a baseline or a plan that may be faster has no measurement
  bool shortest = true;                  ///< false: another plan, with which it ties, had shorter steps
};
struct BestInHalfMemory {
  PlanBeside plan;
};
struct NothingBeatsBaselines {
  bool all_measured = true;  ///< every baseline was measured
};
/// Other plans of the final series whose steps are as long as the recommended plan's.
struct AsFastAsOthers {
  std::vector<std::string> plans;  ///< names of baselines, descriptions of others
  double within = 0;               ///< share of the step by which they may differ, with 95 % confidence
};
/// Options restrict the search, not the baselines.
struct AskedFor {
  std::string options;  ///< "--stages 2 --recompute all"
  Plan plan;            ///< the fastest plan that they allow
};
using PlanAdvice = std::variant<OnlyPlanMeasured, FastestHere, BestInHalfMemory, NothingBeatsBaselines, AsFastAsOthers, AskedFor>;

// ---- what may be wrong with the recommendation ----
struct PredictionOff {
  Plan plan;
  double predicted_s = 0;
  double measured_s = 0;
};
struct FewRounds {
  int rounds = 0;
  int wanted = 0;
};
struct Undecided {
  Plan rival;
};
struct NoTimeToMeasure {
  std::string plans;  ///< their descriptions
};
struct NoTraceOf {
  std::string name;    ///< of the plan
  std::string failed;  ///< what went wrong; empty: the budget is spent
};
/// Baselines without a measured trial.
struct BaselinesFailed {
  std::vector<std::string> names;
  Outcome cause;
};
struct BaselinesNotTried {
  std::vector<std::string> names;
};
/// Plans that failed in the final series after their own trials were measured.
struct FinalistsFailed {
  std::vector<std::string> plans;  ///< names of baselines, descriptions of others
  Outcome cause;
};
/// Candidates that failed and were predicted to be faster than the recommended plan.
struct FasterPlansFailed {
  int plans = 0;
  double time_ratio = 1;  ///< shortest predicted step of these plans over that of the recommended plan
  Outcome cause;
};
/// The final series was disturbed.
struct NoisySeries {
  Noise noise;
};
/// Steps of a plan come in two lengths.
struct StepsInTwoModes {
  Plan plan;
  TwoModes modes;
};
/// Training by the recommended plan computes something else than training on one device.
struct TrainsOtherwise {
  planner::ChangedNumerics numerics;
};
using Warning = std::variant<PredictionOff, NoisySeries, StepsInTwoModes, FewRounds, Undecided, NoTimeToMeasure, NoTraceOf, BaselinesFailed,
                             BaselinesNotTried, FinalistsFailed, FasterPlansFailed, TrainsOtherwise>;

// ---- kinds of parallelism ----
struct TrialFailed {
  Outcome outcome;
};
/// The plan failed in the final series, after a trial of its own was measured.
struct FailedInFinal {
  Outcome outcome;
};
struct NotTried {};
struct NotInFinal {};
/// Why a plan or a kind has no measurement in the last series; monostate: it has one.
using WhyNot = std::variant<std::monostate, NoPlan, TrialFailed, NotTried, NotInFinal, FailedInFinal>;
/// Returns how the plan's trial ended, where that is the reason; else null.
[[nodiscard]] const Outcome* failure_in(const WhyNot& why);

/// Which kind is fastest, which kinds cannot be told from it, and which is next.
struct FastestKind {
  planner::Parallelism kind = planner::Parallelism::one_device;
  bool alone = false;          ///< nothing else was measured
  double over_one_device = 0;  ///< speed-up; 0: not measured, one device itself, or not to be told from it
  std::vector<planner::Parallelism> alike{};
  std::vector<planner::Parallelism> unknown{};  ///< measured in too few rounds to be compared
  std::optional<planner::Parallelism> next{};
  double next_time_ratio = 1;  ///< its step over the fastest kind's
  bool all_measured = true;    ///< false: all trials of a kind failed, for another cause than lack of memory
};
/// The kind whose fullest device needs least memory.
struct LeanestKind {
  planner::Parallelism kind = planner::Parallelism::one_device;
  double saved = 0;       ///< share of the fastest kind's memory that it saves
  double time_ratio = 1;  ///< its step over the fastest kind's
};
struct KindsTooLarge {
  std::vector<planner::Parallelism> kinds;
};
/// Predicted steps on other numbers of devices.
struct Outlook {
  struct Row {
    int devices = 0;
    planner::Parallelism kind = planner::Parallelism::one_device;
    double time_ratio = 1;  ///< over the fastest predicted step here
  };
  std::vector<Row> rows;
};
using KindAdvice = std::variant<FastestKind, LeanestKind, KindsTooLarge, Outlook>;

}  // namespace mptune::tuner
