#include "mptune/planner/search/rejected_classes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <tuple>

#include "mptune/profiler/base/text.h"

namespace mptune {
namespace {

const std::string kSchedule = "schedule ";

// Less than this would be printed as 0.0 %.
constexpr double kSameShare = 0.0005;

// What is known of a class: of its executable families, else of the others.
struct Summary {
  std::string name;
  bool executable = false;
  bool fits = false;
  std::string why_not;
  double best_s = std::numeric_limits<double>::infinity();
  std::int64_t lower_ns = std::numeric_limits<std::int64_t>::max();
  bool solved = true;
  std::int64_t count = 0;
};

std::vector<std::string> names_of(const std::string& schedule, std::size_t microbatches, int stages, int stages_per_device,
                                  bool replicated) {
  std::vector<std::string> names = {kSchedule + schedule, fmt::format("m = {}", microbatches)};
  if (stages_per_device > 1) {
    names.push_back(fmt::format("{} stages on each device", stages_per_device));
  } else if (replicated) {
    names.emplace_back("stages with replicas");
  } else {
    names.push_back(fmt::format("{} stages, one device each", stages));
  }
  return names;
}

std::vector<std::string> names_of(const PlanFamily& family) {
  return names_of(family.schedule, family.sizes.size(), family.stages(), family.virtual_stages, family.replicated());
}

// None where the plan is no pipeline.
std::vector<std::string> names_of(const Plan& plan) {
  if (plan.num_stages() < 2) return {};
  std::vector<int> stages_on(plan.devices.size(), 0);
  for (const Stage& stage : plan.stages)
    for (const int device : stage.devices) ++stages_on[static_cast<std::size_t>(device)];
  return names_of(plan.schedule, plan.microbatch_sizes.size(), plan.num_stages(), std::ranges::max(stages_on), has_replicas(plan));
}

void add(Summary& summary, const FamilyState& state) {
  const bool executable = state.family.why_not.empty();
  summary.count += state.family.plans;
  if (summary.executable && !executable) return;
  if (executable && !summary.executable) {
    const std::int64_t count = summary.count;
    summary = {summary.name, true, false, "", std::numeric_limits<double>::infinity(), std::numeric_limits<std::int64_t>::max(),
               true,         count};
  }
  if (!executable) summary.why_not = state.family.why_not;
  summary.best_s = std::min(summary.best_s, state.best_s);
  summary.lower_ns = std::min(summary.lower_ns, state.family.bound_ns);
  summary.fits |= state.fits;
  summary.solved &= state.proof.solved;
}

// "m = 2" before "m = 16": the words, the number behind them, the rest.
std::tuple<std::string, int, std::string> by_number(const std::string& name) {
  const auto digit = std::ranges::find_if(name, [](unsigned char letter) { return std::isdigit(letter) != 0; });
  const auto word = static_cast<std::size_t>(digit - name.begin());
  return {name.substr(0, word), std::atoi(name.c_str() + word), name};
}

std::string slower_or_faster(double share) {
  if (std::abs(share) < kSameShare) return "as fast";
  return compared_time(1 + share, 1);
}

std::string reason_of(const Summary& summary, double best_s, const std::map<std::string, NotExecutable>& beyond) {
  if (!summary.executable) {
    const auto found = summary.name.starts_with(kSchedule) ? beyond.find(summary.name.substr(kSchedule.size())) : beyond.end();
    if (found == beyond.end()) return summary.why_not;
    return summary.why_not + ", " + slower_or_faster(found->second.candidate.prediction.step_s / best_s - 1) + " at its best";
  }
  if (!summary.fits) return kTooLarge;
  const double bound = static_cast<double>(summary.lower_ns) * 1e-9 / best_s - 1;
  if (bound > 0 && bound < kSameShare) return "slower: its lower bound lies above the best plan";
  if (bound > 0) return "at least " + compared_time(1 + bound, 1) + " by its lower bound";
  if (summary.best_s < std::numeric_limits<double>::infinity())
    return slower_or_faster(summary.best_s / best_s - 1) + " at its best" + (summary.solved ? "; none is faster" : "");
  return summary.solved ? "none is faster" : "not reached within the limit of the search";
}

}  // namespace

std::vector<RejectedClass> rejected_classes(const std::vector<FamilyState>& families, const Candidate& best,
                                            const std::map<std::string, NotExecutable>& beyond) {
  std::vector<Summary> summaries;
  // They hold the best plan.
  const std::vector<std::string> chosen = names_of(best.plan);
  for (const FamilyState& state : families) {
    for (const std::string& name : names_of(state.family)) {
      auto known = std::ranges::find(summaries, name, &Summary::name);
      if (known == summaries.end()) known = summaries.insert(summaries.end(), Summary{.name = name, .why_not = ""});
      add(*known, state);
    }
  }
  std::vector<RejectedClass> classes;
  for (const Summary& summary : summaries) {
    if (std::ranges::find(chosen, summary.name) != chosen.end()) continue;
    classes.push_back({summary.name, reason_of(summary, best.prediction.step_s, beyond), summary.count});
  }
  std::ranges::sort(classes, {}, [](const RejectedClass& one) { return by_number(one.name); });
  return classes;
}

}  // namespace mptune
