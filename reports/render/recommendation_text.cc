#include "mptune/reports/render/recommendation_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "mptune/planner/search/search.h"
#include "mptune/profiler/base/text.h"
#include "mptune/profiler/base/units.h"
#include "mptune/tuner/search/trial_search.h"

namespace mptune {
namespace {

// Less than this is printed as 0 %.
constexpr double kEqual = 0.005;
constexpr double kAsLong = 0.02;

std::string kinds_in_words(const std::vector<Parallelism>& kinds) {
  std::string text;
  for (const Parallelism kind : kinds) text += (text.empty() ? "" : ", ") + in_words(kind);
  return text;
}

std::string lead(const Plan& plan) {
  switch (parallelism_of(plan)) {
    case Parallelism::one_device:
    case Parallelism::all_cores:
      return "the un-pipelined model";
    case Parallelism::data_parallel:
      return "data parallel";
    case Parallelism::pipeline:
      return "a pipeline";
    case Parallelism::hybrid:
      return "a hybrid of data parallel and pipeline";
  }
  return "this plan";
}

std::string time_clause(double ratio) {
  if (std::abs(ratio - 1) <= kEqual) return "is as fast";
  return (ratio >= 2 ? "takes " : "is ") + compared_time(ratio, 0);
}

std::string memory_clause(double ratio) {
  if (ratio <= 0) return "";
  if (ratio < 1 - kEqual) return fmt::format(" and needs {:.0f} % less memory per device", 100 * (1 - ratio));
  if (ratio > 1 + kEqual) return fmt::format(" and needs {:.0f} % more memory per device", 100 * (ratio - 1));
  return " and needs as much memory per device";
}

std::string beside_text(const char* which, const PlanBeside& other) {
  return fmt::format("the best {} ({}) {}{}", which, describe(other.plan), time_clause(other.time_ratio),
                     memory_clause(other.memory_ratio));
}

std::string longer(double ratio) {
  if (std::abs(ratio - 1) <= kAsLong) return "as long";
  if (ratio >= 2) return fmt::format("{:.1f}x the time", ratio);
  return ratio > 1 ? fmt::format("{:.0f} % longer", 100 * (ratio - 1)) : fmt::format("{:.0f} % less time", 100 * (1 - ratio));
}

struct ReasonWords {
  std::string operator()(const OnlyFinalist&) const { return "the only plan in the final comparison"; }
  std::string operator()(const FastestOf& fact) const { return fmt::format("fastest of {} plans benchmarked interleaved", fact.plans); }
  std::string operator()(const AsFastAs& fact) const {
    const char* what = fact.by == TieBreak::less_memory    ? "needs less memory"
                       : fact.by == TieBreak::fewer_copies ? "needs fewer copies"
                                                           : "is a baseline";
    return "not measurably slower than " + describe(fact.fastest) + ", and " + what;
  }
  std::string operator()(const FastestPipeline&) const { return "fastest pipeline"; }
  std::string operator()(const FastestInHalfMemory&) const { return "fastest in at most half the memory of the un-pipelined model"; }
  std::string operator()(const OverBaseline& fact) const {
    return fmt::format("{:.2f} times as fast as {}: {}", fact.speedup.estimate, fact.baseline, fact.speedup.reason);
  }
  std::string operator()(const PredictedAndMeasured& fact) const {
    return fmt::format("predicted {}, measured {} ({:+.1f} %)", format_seconds(fact.predicted_s), format_seconds(fact.measured_s),
                       100 * (fact.measured_s / fact.predicted_s - 1));
  }
  std::string operator()(const LongestStage& fact) const { return fmt::format("stage {} computes longest", fact.stage); }
};

struct AdviceWords {
  std::string operator()(const OnlyPlanMeasured& fact) const {
    return lead(fact.plan) + " is the only plan that was measured: which plan is fastest here is not known";
  }
  std::string operator()(const FastestHere& fact) const {
    return head(fact) + (fact.pipeline ? "; " + beside_text("pipeline", *fact.pipeline) : "");
  }
  std::string operator()(const BestInHalfMemory& fact) const {
    return beside_text("plan in half the memory of the un-pipelined model", fact.plan);
  }
  std::string operator()(const NothingBeatsBaselines&) const { return "nothing is measurably faster than the best baseline"; }

 private:
  static std::string head(const FastestHere& fact) {
    const Parallelism kind = parallelism_of(fact.plan);
    if (kind == Parallelism::one_device) {
      return fact.any_pipeline ? "no split beats the un-pipelined model here: " + fact.name + " is fastest"
                               : fact.name + " is the fastest plan that was measured; no pipeline was measured";
    }
    return lead(fact.plan) + " is fastest here" + (kind == Parallelism::data_parallel ? "" : ": " + describe(fact.plan));
  }
};

struct WarningWords {
  std::string operator()(const PredictionOff& fact) const {
    return fmt::format("the prediction of {} is off by {:.0f} % ({}, measured {}): plans that were not measured may be better",
                       describe(fact.plan), 100 * std::abs(fact.measured_s - fact.predicted_s) / fact.measured_s,
                       format_seconds(fact.predicted_s), format_seconds(fact.measured_s));
  }
  std::string operator()(const FewRounds& fact) const {
    return fmt::format("only {} interleaved rounds, {} are wanted: give a larger --budget", fact.rounds, fact.wanted);
  }
  std::string operator()(const Undecided& fact) const {
    return "undecided at the end of the budget: " + describe(fact.rival) + " may be faster; give a larger --budget and a quieter machine";
  }
  std::string operator()(const NoTimeToMeasure& fact) const {
    return "no time to benchmark " + fact.plans + " interleaved with the others; go on with mptune tune --resume and a larger --budget";
  }
  std::string operator()(const NoTraceOf& fact) const {
    return "no trace of " + fact.name + ": " +
           (fact.failed.empty() ? "the budget is spent; go on with --resume to record it" : fact.failed);
  }
};

struct WhyNotWords {
  std::string operator()(const std::monostate&) const { return ""; }
  std::string operator()(const NoPlan& fact) const { return mptune::text_of(fact); }
  std::string operator()(const TrialFailed& fact) const { return outcome_text(fact.outcome); }
  std::string operator()(const NotTried&) const { return "not tried: no time in the budget"; }
  std::string operator()(const NotInFinal&) const { return "tried, but not in the final comparison: no time in the budget"; }
};

struct KindWords {
  std::string operator()(const FastestKind& fact) const {
    std::string text = in_words(fact.kind);
    if (fact.alone) return text + " is the only kind that was measured: which kind is fastest here is not known";
    text += " is fastest here";
    if (fact.over_one_device > 0) text += fmt::format(", {:.2f} times as fast as one device", fact.over_one_device);
    if (!fact.alike.empty()) text += "; no measurable difference to " + kinds_in_words(fact.alike);
    if (!fact.next) return text;
    const bool slower = fact.next_time_ratio > 1 + kEqual;
    return text + "; next is " + in_words(*fact.next) + ", " + (slower ? compared_time(fact.next_time_ratio, 0) : "no slower");
  }
  std::string operator()(const LeanestKind& fact) const {
    return fmt::format("to save memory: {} needs {:.0f} % less on its fullest device; its step takes {}", in_words(fact.kind),
                       100 * fact.saved, longer(fact.time_ratio));
  }
  std::string operator()(const KindsTooLarge& fact) const { return "does not fit into memory here: " + kinds_in_words(fact.kinds); }
  std::string operator()(const Outlook& fact) const {
    std::string text;
    for (const Outlook::Row& row : fact.rows) {
      text += fmt::format("{}{} device{} like these would take {} ({})", text.empty() ? " " : ", ", row.devices,
                          row.devices == 1 ? "" : "s", longer(row.time_ratio), in_words(row.kind));
    }
    return "predicted:" + text;
  }
};

}  // namespace

std::string text_of(const Reason& reason) {
  return std::visit(ReasonWords{}, reason);
}

std::string text_of(const PlanAdvice& advice) {
  return std::visit(AdviceWords{}, advice);
}

std::string text_of(const Warning& warning) {
  return std::visit(WarningWords{}, warning);
}

std::string text_of(const WhyNot& reason) {
  return std::visit(WhyNotWords{}, reason);
}

std::string text_of(const KindAdvice& advice) {
  return std::visit(KindWords{}, advice);
}

}  // namespace mptune
