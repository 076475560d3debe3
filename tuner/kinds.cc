#include "mptune/tuner/kinds.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "mptune/profiler/base/text.h"
#include "mptune/tuner/finalists.h"
#include "mptune/tuner/printed.h"
#include "mptune/tuner/search/trial_search.h"

namespace mptune {
namespace {

// Less memory than this share of the recommended plan's is worth a sentence.
constexpr double kLessMemory = 0.9;
constexpr double kAsLong = 0.02;

std::string first_excess(const Plan& plan, const std::vector<std::int64_t>& peaks, const SearchSpace& space) {
  for (std::size_t d = 0; d < plan.devices.size() && d < peaks.size(); ++d) {
    const auto at = std::ranges::find(space.devices, plan.devices[d]) - space.devices.begin();
    const bool listed = at < std::ssize(space.memory_bytes);
    const std::int64_t cap = listed ? space.memory_bytes[static_cast<std::size_t>(at)] : space.whole_machine_memory_bytes;
    if (cap > 0 && peaks[d] > cap)
      return "does not fit: needs " + bytes_text(peaks[d]) + " on " + plan.devices[d] + ", the cap is " + bytes_text(cap);
  }
  return "";
}

bool options_restrict(const SearchSpace& space) {
  return !space.stage_counts.empty() || !space.virtual_counts.empty() || !space.replicas.empty() || !space.cuts.empty();
}

bool has_caps(const SearchSpace& space) {
  return std::ranges::any_of(space.memory_bytes, [](std::int64_t cap) { return cap > 0; });
}

std::string why_impossible(Parallelism kind, const SearchSpace& space, int layers) {
  const std::size_t needed = kind == Parallelism::hybrid ? 3 : kind == Parallelism::data_parallel || kind == Parallelism::pipeline ? 2 : 1;
  const std::size_t devices = space.devices.size();
  if (kind == Parallelism::all_cores && space.whole_machine.empty()) return "only several CPU cores can be one device";
  if (devices < needed) return printed("needs at least %zu devices; %zu available", needed, devices);
  if ((kind == Parallelism::pipeline || kind == Parallelism::hybrid) && layers < 2) return "the model has one layer";
  if (kind == Parallelism::data_parallel && space.batch < static_cast<int>(devices))
    return "the batch has fewer samples than there are devices";
  return "";
}

std::string why_no_plan(Parallelism kind, const SearchSpace& space, const CostModel& cost) {
  if (std::string why = why_impossible(kind, space, cost.layers()); !why.empty()) return why;
  for (const NamedPlan& baseline : baseline_plans(space, cost.layers())) {
    const bool least = baseline.plan.num_stages() == 1 && parallelism_of(baseline.plan, space.whole_machine) == kind;
    if (!least) continue;
    if (std::string excess = first_excess(baseline.plan, cost.peak_bytes(baseline.plan), space); !excess.empty()) return excess;
  }
  if (options_restrict(space)) return "the options ask for other plans";
  return has_caps(space) ? "does not fit: no plan of this kind was found within the caps" : "no plan of this kind was found";
}

struct Rows {
  const std::vector<Trial>& trials;
  const KindFacts& facts;

  [[nodiscard]] bool is(const Trial& trial, Parallelism kind) const { return parallelism_of(trial.plan, facts.whole_machine) == kind; }
  [[nodiscard]] const Trial* fastest(Parallelism kind) const {
    const Trial* best = nullptr;
    for (const Trial& trial : trials) {
      if (measured_step(trial) && is(trial, kind) && (best == nullptr || *measured_step(trial) < *measured_step(*best))) best = &trial;
    }
    return best;
  }
  [[nodiscard]] const Trial* failed(Parallelism kind) const {
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
  if (const auto paper = all.facts.on_paper.find(row.kind); paper != all.facts.on_paper.end()) {
    row.description = paper->second.description;
    row.predicted_step_s = paper->second.step_s;
    row.peak_bytes = paper->second.peak_bytes;
  }
  const auto none = all.facts.no_plan.find(row.kind);
  if (const Trial* failed = all.failed(row.kind)) {
    row.why_not = outcome_text(failed->outcome);
    row.description = describe(failed->plan);
    row.predicted_step_s = failed->prediction ? failed->prediction->step_s : 0;
    row.peak_bytes.clear();
  } else {
    row.why_not = none != all.facts.no_plan.end() ? none->second : "not tried: no time in the budget";
  }
}

KindResult row_of(Parallelism kind, const RecommendedPlan& recommended, const Rows& finals, const Rows& all) {
  KindResult row;
  row.kind = kind;
  row.best = finals.is(recommended.trial, kind);
  if (row.best) {
    fill(row, recommended.trial);
  } else if (const Trial* raced = finals.fastest(kind)) {
    fill(row, *raced);
  } else if (const Trial* tried = all.fastest(kind)) {
    fill(row, *tried);
    row.why_not = "tried, but not in the final comparison: no time in the budget";
  } else {
    explain(row, all);
  }
  return row;
}

bool raced(const KindResult& row) {
  return row.trial && row.why_not.empty();
}

void compare(std::vector<KindResult>& rows, const RecommendedPlan& recommended) {
  const auto steps = [](const Trial& trial) -> const Samples& { return std::get<Measured>(trial.outcome).step_s; };
  const KindResult& one = rows.front();
  for (KindResult& row : rows) {
    if (!raced(row)) continue;
    row.over_best = paired_speedup(steps(recommended.trial), steps(*row.trial));
    if (raced(one)) row.over_one_device = paired_speedup(steps(*one.trial), steps(*row.trial));
  }
}

std::vector<const KindResult*> raced_by_time(const std::vector<KindResult>& rows) {
  std::vector<const KindResult*> found;
  for (const KindResult& row : rows) {
    if (raced(row)) found.push_back(&row);
  }
  std::ranges::stable_sort(found, {}, [](const KindResult* row) { return row->step_s; });
  return found;
}

std::string longer(double ratio) {
  if (std::abs(ratio - 1) <= kAsLong) return "as long";
  if (ratio >= 2) return printed("%.1fx the time", ratio);
  return ratio > 1 ? printed("%.0f %% longer", 100 * (ratio - 1)) : printed("%.0f %% less time", 100 * (1 - ratio));
}

std::string behind(const KindResult& row) {
  const double ratio = 1 / row.over_best->estimate;
  return ratio > 1.005 ? compared_time(ratio, 0) : "no slower";
}

// The fastest, those that cannot be told from it, and the next.
std::string answer(const std::vector<const KindResult*>& by_time, const KindResult& best) {
  std::string text = in_words(best.kind);
  if (by_time.size() < 2) return text + " is the only kind that was measured: which kind is fastest here is not known";
  text += " is fastest here";
  if (best.over_one_device && best.kind != Parallelism::one_device)
    text += printed(", %.2f times as fast as one device", best.over_one_device->estimate);
  std::string alike;
  std::string next;
  for (const KindResult* row : by_time) {
    if (row == &best) continue;
    const Verdict verdict = row->over_best->verdict;
    if (verdict != Verdict::slow) {
      alike += (alike.empty() ? "; within what was measured as fast: " : ", ") + in_words(row->kind);
    } else if (next.empty()) {
      next = "; next is " + in_words(row->kind) + ", " + behind(*row);
    }
  }
  return text + alike + next;
}

std::int64_t fullest(const KindResult& row) {
  return row.peak_bytes.empty() ? 0 : std::ranges::max(row.peak_bytes);
}

std::string memory_sentence(const std::vector<const KindResult*>& by_time, const KindResult& best) {
  const KindResult* least = &best;
  for (const KindResult* row : by_time) {
    if (fullest(*row) > 0 && fullest(*row) < fullest(*least)) least = row;
  }
  if (least == &best || static_cast<double>(fullest(*least)) > kLessMemory * static_cast<double>(fullest(best))) return "";
  const double saved = 1 - static_cast<double>(fullest(*least)) / static_cast<double>(fullest(best));
  return printed("where memory is short: the fullest device of %s needs %.0f %% less, the step takes %s", in_words(least->kind).c_str(),
                 100 * saved, longer(1 / least->over_best->estimate).c_str());
}

std::string too_large_sentence(const std::vector<KindResult>& rows) {
  std::string kinds;
  for (const KindResult& row : rows) {
    if (row.trial || !(row.why_not.starts_with("does not fit") || row.why_not.starts_with("out of memory"))) continue;
    kinds += (kinds.empty() ? "" : ", ") + in_words(row.kind);
  }
  return kinds.empty() ? "" : "no room here for: " + kinds;
}

std::string outlook(const KindFacts& facts) {
  if (facts.other_devices.empty() || facts.on_paper.empty()) return "";
  const double now = std::ranges::min_element(facts.on_paper, {}, [](const auto& paper) { return paper.second.step_s; })->second.step_s;
  std::string text = "predicted:";
  for (const OtherDevices& other : facts.other_devices) {
    text += printed("%s %d such device%s would take %s (%s)", &other == &facts.other_devices.front() ? "" : ",", other.devices,
                    other.devices == 1 ? "" : "s", longer(other.step_s / now).c_str(), in_words(other.kind).c_str());
  }
  return text;
}

}  // namespace

KindFacts kind_facts(const SearchSpace& space, const SearchResult& search, const CostModel& cost) {
  KindFacts facts;
  facts.whole_machine = space.whole_machine;
  for (const Candidate& candidate : search.ranked) {
    facts.on_paper.try_emplace(parallelism_of(candidate.plan, space.whole_machine),
                               KindOnPaper{describe(candidate.plan), candidate.prediction.step_s, candidate.prediction.peak_bytes});
  }
  for (const Parallelism kind : kParallelisms) {
    if (!facts.on_paper.contains(kind)) facts.no_plan[kind] = why_no_plan(kind, space, cost);
  }
  return facts;
}

KindComparison compare_kinds(const RecommendedPlan& recommended, const std::vector<Trial>& final_series, const std::vector<Trial>& all,
                             const KindFacts& facts) {
  KindComparison comparison;
  for (const Parallelism kind : kParallelisms) comparison.rows.push_back(row_of(kind, recommended, {final_series, facts}, {all, facts}));
  compare(comparison.rows, recommended);
  const std::vector<const KindResult*> by_time = raced_by_time(comparison.rows);
  const KindResult& best = *std::ranges::find(comparison.rows, true, &KindResult::best);
  for (const std::string& sentence :
       {answer(by_time, best), memory_sentence(by_time, best), too_large_sentence(comparison.rows), outlook(facts)}) {
    if (!sentence.empty()) comparison.advice.push_back(sentence);
  }
  return comparison;
}

}  // namespace mptune
