#include "tuner/study/recommend/kinds.h"

#include <algorithm>
#include <utility>

#include "planner/plan/plan_words.h"
#include "profiler/base/index.h"
#include "profiler/base/text.h"
#include "profiler/base/units.h"
#include "tuner/study/explore/trial_search.h"
#include "tuner/study/recommend/finalists.h"

namespace mptune::tuner {
namespace {

// A kind whose fullest device needs at most this share of the recommended plan's memory is mentioned.
constexpr double kLessMemory = 0.9;

std::optional<NoPlan> first_excess(const Plan& plan, const std::vector<std::int64_t>& peaks, const SearchSpace& space) {
  for (std::size_t d = 0; d < plan.devices.size() && d < peaks.size(); ++d) {
    const auto at = std::ranges::find(space.devices, plan.devices[d]) - space.devices.begin();
    const bool listed = at < std::ssize(space.memory_bytes);
    const std::int64_t cap = listed ? space.memory_bytes[as_index(at)] : space.whole_machine_memory_bytes;
    if (cap > 0 && peaks[d] > cap)
      return NoPlan{.why = NoPlan::Why::over_cap, .device = plan.devices[d], .needed_bytes = peaks[d], .cap_bytes = cap};
  }
  return std::nullopt;
}

bool options_restrict(const SearchSpace& space) {
  return !space.stage_counts.empty() || !space.virtual_counts.empty() || !space.replicas.empty() || !space.cuts.empty();
}

bool has_caps(const SearchSpace& space) {
  return std::ranges::any_of(space.memory_bytes, [](std::int64_t cap) { return cap > 0; });
}

std::optional<NoPlan> why_impossible(planner::Parallelism kind, const SearchSpace& space, int layers) {
  using enum NoPlan::Why;
  const int needed = kind == planner::Parallelism::hybrid                                                    ? 3
                     : kind == planner::Parallelism::data_parallel || kind == planner::Parallelism::pipeline ? 2
                                                                                                             : 1;
  std::size_t most = space.devices.size();
  for (const Division& division : space.divisions) most = std::max(most, division.devices.size());
  const int devices = static_cast<int>(most);
  if (kind == planner::Parallelism::all_cores && space.whole_machine.empty()) return NoPlan{.why = needs_several_cores};
  if (devices < needed) return NoPlan{.why = needs_devices, .needed = needed, .available = devices};
  if ((kind == planner::Parallelism::pipeline || kind == planner::Parallelism::hybrid) && layers < 2) return NoPlan{.why = one_layer};
  if (kind == planner::Parallelism::data_parallel && space.batch < devices) return NoPlan{.why = few_samples};
  return std::nullopt;
}

NoPlan why_no_plan(planner::Parallelism kind, const SearchSpace& space, const CostModel& cost) {
  if (const auto impossible = why_impossible(kind, space, cost.layers())) return *impossible;
  for (const planner::NamedPlan& baseline : planner::baseline_plans(space, cost.layers(), cost.profile().precision)) {
    const bool least = baseline.plan.num_stages() == 1 && planner::parallelism_of(baseline.plan, space.whole_machine) == kind;
    if (!least) continue;
    if (const auto excess = first_excess(baseline.plan, cost.peak_bytes(baseline.plan), space)) return *excess;
  }
  if (options_restrict(space)) return {.why = NoPlan::Why::other_plans_asked};
  return {.why = has_caps(space) ? NoPlan::Why::none_within_caps : NoPlan::Why::none_found};
}

struct Rows {
  const std::vector<Trial>& trials;
  const KindFacts& facts;

  [[nodiscard]] bool is(const Trial& trial, planner::Parallelism kind) const {
    return planner::parallelism_of(trial.plan, facts.whole_machine) == kind;
  }
  [[nodiscard]] const Trial* fastest(planner::Parallelism kind) const {
    const Trial* best = nullptr;
    for (const Trial& trial : trials)
      if (measured_step(trial) && is(trial, kind) && (best == nullptr || *measured_step(trial) < *measured_step(*best))) best = &trial;
    return best;
  }
  [[nodiscard]] const Trial* failed(planner::Parallelism kind) const {
    const auto found = std::ranges::find_if(trials, [&](const Trial& trial) {
      return is(trial, kind) && !measured_step(trial) && !std::holds_alternative<Interrupted>(trial.outcome);
    });
    return found == trials.end() ? nullptr : &*found;
  }
};

void fill(KindResult& row, const Trial& trial) {
  const auto& measured = std::get<Measured>(trial.outcome);
  row.trial = trial;
  row.step_s = median(measured.step_s);
  row.step_ci95_s = interval95(measured.step_s);
  row.peak_bytes = peak_bytes_of(trial);
  row.description = describe(trial.plan);
  if (trial.prediction) row.predicted_step_s = trial.prediction->step_s;
}

void explain(KindResult& row, const Rows& all) {
  if (const auto best = all.facts.predicted.find(row.kind); best != all.facts.predicted.end()) {
    row.description = best->second.description;
    row.predicted_step_s = best->second.step_s;
    row.peak_bytes = best->second.peak_bytes;
  }
  const auto none = all.facts.no_plan.find(row.kind);
  if (const Trial* failed = all.failed(row.kind)) {
    row.why_not = TrialFailed{failed->outcome};
    row.description = describe(failed->plan);
    row.predicted_step_s = failed->prediction ? failed->prediction->step_s : 0;
    row.peak_bytes.clear();
  } else {
    row.why_not = none != all.facts.no_plan.end() ? WhyNot(none->second) : NotTried{};
  }
}

KindResult row_of(planner::Parallelism kind, const RecommendedPlan& recommended, const Rows& finals, const Rows& all) {
  KindResult row;
  row.kind = kind;
  row.best = finals.is(recommended.trial, kind);
  if (row.best) {
    fill(row, recommended.trial);
  } else if (const Trial* last = finals.fastest(kind)) {
    fill(row, *last);
  } else if (const Trial* tried = all.fastest(kind)) {
    fill(row, *tried);
    const Trial* failed = finals.failed(kind);
    row.why_not = failed == nullptr ? WhyNot(NotInFinal{}) : FailedInFinal{failed->outcome};
  } else {
    explain(row, all);
  }
  return row;
}

bool benchmarked(const KindResult& row) {
  return row.trial && std::holds_alternative<std::monostate>(row.why_not);
}

void compare(std::vector<KindResult>& rows, const RecommendedPlan& recommended) {
  const auto steps = [](const Trial& trial) -> const Samples& { return std::get<Measured>(trial.outcome).step_s; };
  const KindResult& one = rows.front();
  for (KindResult& row : rows) {
    if (!benchmarked(row)) continue;
    row.over_best = paired_speedup(steps(recommended.trial), steps(*row.trial), kConfidenceOfChoice);
    const double confidence = row.best || one.best ? kConfidenceOfChoice : 0.95;
    if (benchmarked(one)) row.over_one_device = paired_speedup(steps(*one.trial), steps(*row.trial), confidence);
  }
}

std::vector<const KindResult*> benchmarked_by_time(const std::vector<KindResult>& rows) {
  std::vector<const KindResult*> found;
  for (const KindResult& row : rows)
    if (benchmarked(row)) found.push_back(&row);
  std::ranges::stable_sort(found, {}, [](const KindResult* row) { return row->step_s; });
  return found;
}

double time_ratio(const KindResult& row) {
  return 1 / row.over_best->estimate;
}

FastestKind fastest_kind(const std::vector<const KindResult*>& by_time, const KindResult& best) {
  FastestKind answer{.kind = best.kind, .alone = by_time.size() < 2};
  const bool told = best.over_one_device && best.over_one_device->error_rate;
  if (told && best.kind != planner::Parallelism::one_device) answer.over_one_device = best.over_one_device->estimate;
  for (const KindResult* row : by_time) {
    if (row == &best) continue;
    if (row->over_best->verdict == Verdict::unknown) {
      answer.unknown.push_back(row->kind);
    } else if (row->over_best->verdict != Verdict::slow) {
      answer.alike.push_back(row->kind);
    } else if (!answer.next) {
      answer.next = row->kind;
      answer.next_time_ratio = time_ratio(*row);
    }
  }
  return answer;
}

std::int64_t fullest(const KindResult& row) {
  return row.peak_bytes.empty() ? 0 : std::ranges::max(row.peak_bytes);
}

std::optional<LeanestKind> leanest_kind(const std::vector<const KindResult*>& by_time, const KindResult& best) {
  const KindResult* least = &best;
  for (const KindResult* row : by_time)
    if (fullest(*row) > 0 && fullest(*row) < fullest(*least)) least = row;
  const double share = static_cast<double>(fullest(*least)) / static_cast<double>(fullest(best));
  if (least == &best || share > kLessMemory) return std::nullopt;
  return LeanestKind{.kind = least->kind, .saved = 1 - share, .time_ratio = time_ratio(*least)};
}

bool lacks_memory(const KindResult& row) {
  if (row.trial) return false;
  if (const auto* failed = std::get_if<TrialFailed>(&row.why_not)) return std::holds_alternative<OutOfMemory>(failed->outcome);
  const auto* none = std::get_if<NoPlan>(&row.why_not);
  return none != nullptr && too_large(*none);
}

bool failed_otherwise(const KindResult& row) {
  return failure_in(row.why_not) != nullptr && !lacks_memory(row);
}

KindsTooLarge kinds_too_large(const std::vector<KindResult>& rows) {
  KindsTooLarge found;
  for (const KindResult& row : rows)
    if (lacks_memory(row)) found.kinds.push_back(row.kind);
  return found;
}

/// Returns the largest number of devices of a predicted plan; 0 where all predicted plans have one.
std::ptrdiff_t most_devices(const KindFacts& facts) {
  std::ptrdiff_t most = 0;
  for (const auto& [kind, predicted] : facts.predicted) most = std::max(most, std::ssize(predicted.peak_bytes));
  return most > 1 ? most : 0;
}

Outlook outlook(const KindFacts& facts) {
  Outlook found;
  if (facts.predicted.empty()) return found;
  const auto& [kind, now] = *std::ranges::min_element(facts.predicted, {}, [](const auto& each) { return each.second.step_s; });
  for (const OtherDevices& other : facts.other_devices) {
    // With enough devices for the fastest plan here, that plan can run on some of them. The device of all cores is made of all of them.
    const auto used = kind == planner::Parallelism::all_cores ? most_devices(facts) : std::ssize(now.peak_bytes);
    const bool enough = used > 0 && other.devices >= used;
    found.rows.push_back(enough && other.step_s > now.step_s ? Outlook::Row{other.devices, kind, 1}
                                                             : Outlook::Row{other.devices, other.kind, other.step_s / now.step_s});
  }
  return found;
}

}  // namespace

KindFacts kind_facts(const SearchSpace& space, const SearchResult& search, const CostModel& cost) {
  KindFacts facts;
  facts.whole_machine = space.whole_machine;
  for (const Candidate& candidate : search.ranked) {
    facts.predicted.try_emplace(planner::parallelism_of(candidate.plan, space.whole_machine),
                                PredictedKind{describe(candidate.plan), candidate.prediction.step_s, candidate.prediction.peak_bytes});
  }
  for (const planner::Parallelism kind : planner::kParallelisms)
    if (!facts.predicted.contains(kind)) facts.no_plan[kind] = why_no_plan(kind, space, cost);
  return facts;
}

KindComparison compare_kinds(const RecommendedPlan& recommended, const std::vector<Trial>& final_series, const std::vector<Trial>& all,
                             const KindFacts& facts) {
  KindComparison comparison;
  for (const planner::Parallelism kind : planner::kParallelisms)
    comparison.rows.push_back(row_of(kind, recommended, {final_series, facts}, {all, facts}));
  compare(comparison.rows, recommended);
  const std::vector<const KindResult*> by_time = benchmarked_by_time(comparison.rows);
  const KindResult& best = *std::ranges::find(comparison.rows, true, &KindResult::best);
  FastestKind fastest = fastest_kind(by_time, best);
  fastest.all_measured = std::ranges::none_of(comparison.rows, failed_otherwise);
  comparison.advice.push_back(std::move(fastest));
  if (const auto leanest = leanest_kind(by_time, best)) comparison.advice.push_back(*leanest);
  if (KindsTooLarge large = kinds_too_large(comparison.rows); !large.kinds.empty()) comparison.advice.push_back(std::move(large));
  if (Outlook others = outlook(facts); !others.rows.empty()) comparison.advice.push_back(std::move(others));
  return comparison;
}

}  // namespace mptune::tuner
