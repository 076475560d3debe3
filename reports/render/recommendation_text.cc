#include "reports/render/recommendation_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planner/plan/plan_words.h"
#include "planner/search/baselines.h"
#include "profiler/base/printable.h"
#include "profiler/base/text.h"
#include "profiler/base/units.h"
#include "reports/render/search_text.h"
#include "reports/render/units.h"
#include "tuner/study/explore/trial_search.h"

namespace mptune::reports {
namespace {

// A difference less than this is printed as 0 %.
constexpr double kEqual = 0.005;
constexpr double kAsLong = 0.02;

std::string kinds_in_words(const std::vector<planner::Parallelism>& kinds) {
  std::string text;
  for (const planner::Parallelism kind : kinds) text += (text.empty() ? "" : ", ") + planner::in_words(kind);
  return text;
}

std::string lead(const Plan& plan) {
  switch (planner::parallelism_of(plan)) {
    case planner::Parallelism::one_device:
    case planner::Parallelism::all_cores:
      return "the un-pipelined model";
    case planner::Parallelism::data_parallel:
      return "data parallel";
    case planner::Parallelism::pipeline:
      return "a pipeline";
    case planner::Parallelism::hybrid:
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

std::string beside_text(const char* which, const tuner::PlanBeside& other) {
  return fmt::format("the best {} ({}) {}{}", which, describe(other.plan), time_clause(other.time_ratio),
                     memory_clause(other.memory_ratio));
}

std::string longer(double ratio) {
  if (std::abs(ratio - 1) <= kAsLong) return "as long";
  if (ratio >= 2) return fmt::format("{:.1f}x the time", ratio);
  return ratio > 1 ? fmt::format("{:.0f} % longer", 100 * (ratio - 1)) : fmt::format("{:.0f} % less time", 100 * (1 - ratio));
}

struct ReasonWords {
  std::string operator()(const tuner::OnlyFinalist&) const { return "the only plan in the final comparison"; }
  std::string operator()(const tuner::FastestOf& fact) const {
    return fmt::format("fastest of {} plans benchmarked interleaved", fact.plans);
  }
  std::string operator()(const tuner::AsFastAs& fact) const {
    const char* what = fact.by == tuner::TieBreak::less_memory    ? "needs less memory"
                       : fact.by == tuner::TieBreak::fewer_copies ? "needs fewer copies"
                       : fact.by == tuner::TieBreak::familiar     ? "is a baseline"
                                                                  : "is predicted to be faster";
    return "not measurably slower than " + describe(fact.fastest) + ", and " + what;
  }
  std::string operator()(const tuner::FastestPipeline&) const { return "fastest pipeline"; }
  std::string operator()(const tuner::FastestInHalfMemory&) const { return "fastest in at most half the memory of the un-pipelined model"; }
  std::string operator()(const tuner::OverBaseline& fact) const {
    return fmt::format("{} times as fast as {}: {}", format_ratio(fact.speedup.estimate), fact.baseline, fact.speedup.reason);
  }
  std::string operator()(const tuner::PredictedAndMeasured& fact) const {
    return fmt::format("predicted {}, measured {} (off by {})", format_seconds(fact.predicted_s), format_seconds(fact.measured_s),
                       off_by(fact.predicted_s, fact.measured_s));
  }
  std::string operator()(const tuner::LongestStage& fact) const { return fmt::format("stage {} computes longest", fact.stage); }
};

struct AdviceWords {
  std::string operator()(const tuner::OnlyPlanMeasured& fact) const {
    return lead(fact.plan) + " is the only plan that was measured: which plan is fastest here is not known";
  }
  std::string operator()(const tuner::FastestHere& fact) const {
    return head(fact) + (fact.pipeline ? "; " + beside_text("pipeline", *fact.pipeline) : "");
  }
  std::string operator()(const tuner::BestInHalfMemory& fact) const {
    return beside_text("plan in half the memory of the un-pipelined model", fact.plan);
  }
  std::string operator()(const tuner::NothingBeatsBaselines& fact) const {
    return std::string("nothing is measurably faster than the best baseline") + (fact.all_measured ? "" : " that was measured");
  }
  std::string operator()(const tuner::AsFastAsOthers& fact) const {
    return fmt::format("as fast as {}: within {:.0f} % with 95 % confidence", join(fact.plans, ", "), 100 * fact.within);
  }
  std::string operator()(const tuner::AskedFor& fact) const {
    return printable(fact.options) + " restricts the search, not the baselines; its fastest plan, " + planner::kAskedBaseline + ", is " +
           describe(fact.plan);
  }

 private:
  static std::string head(const tuner::FastestHere& fact) {
    const planner::Parallelism kind = planner::parallelism_of(fact.plan);
    const std::string of_measured =
        fact.shortest ? " is the fastest plan that was measured" : " is among the fastest plans that were measured";
    if (kind == planner::Parallelism::one_device) {
      if (!fact.any_pipeline) return fact.name + of_measured + "; no pipeline was measured";
      const std::string place = fact.name + (fact.shortest ? " is fastest" : " is among the fastest");
      return fact.all_measured ? "no split beats the un-pipelined model here: " + place
                               : "no split that was measured beats the un-pipelined model: " + place + " of those plans";
    }
    const std::string here = fact.shortest ? " is fastest here" : " is among the fastest here";
    return lead(fact.plan) + (fact.all_measured ? here : of_measured) +
           (kind == planner::Parallelism::data_parallel ? "" : ": " + describe(fact.plan));
  }
};

/// Says what to do about a plan that failed.
struct RemedyOfFailure {
  std::string operator()(const tuner::OutOfMemory&) const { return "raise --memory or lower --batch"; }
  std::string operator()(const tuner::TimedOut&) const { return "train with it (run) to see where it hangs"; }
  std::string operator()(const tuner::WrongResult&) const { return "check it (check) to see where it differs"; }
  std::string operator()(const tuner::NonFinite&) const { return "lower --lr or check the data"; }
  std::string operator()(const tuner::Environment&) const { return "see `mptune doctor`"; }
  std::string operator()(const tuner::Crashed& crash) const {
    return tuner::was_killed(crash) ? "look into the kernel's log (dmesg), or cap the devices with --memory"
                                    : "train with it (run) to see what fails";
  }
  template <class Other>
  std::string operator()(const Other&) const {
    return "train with it (run) to see what fails";
  }
};

std::string cause_and_remedy(const tuner::Outcome& cause) {
  return tuner::outcome_text(cause) + "; " + std::visit(RemedyOfFailure{}, cause);
}

std::string disturbed_rounds(const tuner::Noise& noise) {
  const tuner::Disturbance worst = noise.worst.value_or(tuner::Disturbance{});
  const double percent = 100 * worst.share;
  const auto cause = [&]() -> std::string {
    switch (worst.by) {
      case tuner::DisturbedBy::other_programs:
        return fmt::format("other programs took up to {:.0f} % of the cores' time", percent);
      case tuner::DisturbedBy::other_machines:
        return fmt::format("other virtual machines took up to {:.0f} % of the cores' time", percent);
      case tuner::DisturbedBy::slow_clock:
        return fmt::format("the clock fell by up to {:.0f} %", percent);
    }
    return "";
  };
  if (noise.kept > 0) return cause() + " in " + counted(noise.kept, "round") + ", which had to count";
  return cause() + " in " + counted(noise.left_out, "round") + ", which were repeated";
}

std::string remedy_of(const tuner::Disturbance& disturbance) {
  switch (disturbance.by) {
    case tuner::DisturbedBy::other_programs:
      return "stop them, or keep them off these cores (taskset)";
    case tuner::DisturbedBy::other_machines:
      return "measure on a machine whose cores are not shared";
    case tuner::DisturbedBy::slow_clock:
      return "check cooling and power limits, or fix the clock rate (cpupower frequency-set)";
  }
  return "";
}

struct WarningWords {
  std::string operator()(const tuner::PredictionOff& fact) const {
    return fmt::format("the prediction of {} is off by {} ({}, measured {}): plans that were not measured may be better",
                       describe(fact.plan), off_by(fact.predicted_s, fact.measured_s), format_seconds(fact.predicted_s),
                       format_seconds(fact.measured_s));
  }
  std::string operator()(const tuner::FewRounds& fact) const {
    return fmt::format("only {} interleaved rounds, {} are wanted: give a larger --budget", fact.rounds, fact.wanted);
  }
  std::string operator()(const tuner::NoisySeries& fact) const {
    return disturbed_rounds(fact.noise) + ": " + remedy_of(fact.noise.worst.value_or(tuner::Disturbance{}));
  }
  std::string operator()(const tuner::StepsInTwoModes& fact) const {
    return fmt::format(
        "steps of {} come in two lengths, {} and {} ({:.0f} % of them): something on this machine changes between two states",
        describe(fact.plan), format_seconds(fact.modes.low), format_seconds(fact.modes.high), 100 * fact.modes.share_high);
  }
  std::string operator()(const tuner::Undecided& fact) const {
    return "undecided at the end of the budget: " + describe(fact.rival) + " may be faster; give a larger --budget and a quieter machine";
  }
  std::string operator()(const tuner::NoTimeToMeasure& fact) const {
    return "no time to benchmark " + fact.plans + " interleaved with the others; go on with a larger --budget";
  }
  std::string operator()(const tuner::NoTraceOf& fact) const {
    return "no trace of " + fact.name + ": " +
           (fact.failed.empty() ? "the budget is spent; go on with --resume to record it" : fact.failed);
  }
  std::string operator()(const tuner::BaselinesFailed& fact) const {
    return "the recommendation is not compared with " + join(fact.names, ", ") + ", which failed: " + cause_and_remedy(fact.cause);
  }
  std::string operator()(const tuner::BaselinesNotTried& fact) const {
    return "the recommendation is not compared with " + join(fact.names, ", ") +
           ": not tried, no time in the budget; give a larger --budget";
  }
  std::string operator()(const tuner::FinalistsFailed& fact) const {
    return join(fact.plans, "; ") + " failed in the final comparison though " +
           (fact.plans.size() == 1 ? "its own trial was" : "their own trials were") + " measured: " + cause_and_remedy(fact.cause);
  }
  std::string operator()(const tuner::TrainsOtherwise& fact) const { return text_of(fact.numerics); }
  std::string operator()(const tuner::FasterPlansFailed& fact) const {
    const char* up_to = fact.plans == 1 ? "" : "up to ";
    return fmt::format("{} plan{} predicted to be {}{} than the recommended one failed: {}", fact.plans, fact.plans == 1 ? "" : "s", up_to,
                       compared_time(fact.time_ratio, 1), cause_and_remedy(fact.cause));
  }
};

struct WhyNotWords {
  std::string operator()(const std::monostate&) const { return ""; }
  std::string operator()(const tuner::NoPlan& fact) const { return tuner::text_of(fact); }
  std::string operator()(const tuner::TrialFailed& fact) const { return tuner::outcome_text(fact.outcome); }
  std::string operator()(const tuner::NotTried&) const { return "not tried: no time in the budget"; }
  std::string operator()(const tuner::NotInFinal&) const { return "tried, but not in the final comparison: no time in the budget"; }
  std::string operator()(const tuner::FailedInFinal& fact) const {
    return "failed in the final comparison: " + tuner::outcome_text(fact.outcome);
  }
};

struct KindWords {
  std::string operator()(const tuner::FastestKind& fact) const {
    std::string text = planner::in_words(fact.kind);
    if (fact.alone) return text + " is the only kind that was measured: which kind is fastest here is not known";
    text += place(fact);
    if (fact.over_one_device > 0) text += fmt::format(", {} times as fast as one device", format_ratio(fact.over_one_device));
    if (!fact.alike.empty()) text += "; no measurable difference to " + kinds_in_words(fact.alike);
    if (!fact.unknown.empty()) text += "; too few rounds for a verdict on " + kinds_in_words(fact.unknown);
    if (!fact.next) return text;
    const bool slower = fact.next_time_ratio > 1 + kEqual;
    return text + "; next is " + planner::in_words(*fact.next) + ", " + (slower ? compared_time(fact.next_time_ratio, 0) : "no slower");
  }
  std::string operator()(const tuner::LeanestKind& fact) const {
    return fmt::format("to save memory: {} needs {:.0f} % less on its fullest device; its step takes {}", planner::in_words(fact.kind),
                       100 * fact.saved, longer(fact.time_ratio));
  }
  std::string operator()(const tuner::KindsTooLarge& fact) const { return "does not fit into memory here: " + kinds_in_words(fact.kinds); }
  std::string operator()(const tuner::Outlook& fact) const {
    std::string text;
    for (const tuner::Outlook::Row& row : fact.rows) {
      text += fmt::format("{}{} device{} like these would take {} ({})", text.empty() ? " " : ", ", row.devices,
                          row.devices == 1 ? "" : "s", longer(row.time_ratio), planner::in_words(row.kind));
    }
    return "predicted:" + text;
  }

 private:
  /// Claims no more than what follows in the sentence allows.
  static std::string place(const tuner::FastestKind& fact) {
    if (!fact.unknown.empty()) return " had the shortest steps";
    if (!fact.alike.empty()) return fact.all_measured ? " is among the fastest here" : " is among the fastest kinds that were measured";
    return fact.all_measured ? " is fastest here" : " is the fastest kind that was measured";
  }
};

}  // namespace

std::string text_of(const tuner::Reason& reason) {
  return std::visit(ReasonWords{}, reason);
}

std::string text_of(const tuner::PlanAdvice& advice) {
  return std::visit(AdviceWords{}, advice);
}

std::string text_of(const tuner::Warning& warning) {
  return std::visit(WarningWords{}, warning);
}

std::string text_of(const tuner::WhyNot& reason) {
  return std::visit(WhyNotWords{}, reason);
}

std::string text_of(const tuner::KindAdvice& advice) {
  return std::visit(KindWords{}, advice);
}

}  // namespace mptune::reports
