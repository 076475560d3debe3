#include "planner/search/joint/rejected_classes.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>

#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

// What is known of a class: of its executable families, or if there are none, of the others.
struct Summary {
  PipelineChoice choice;
  bool executable = false;
  bool fits = false;
  std::optional<MissingCapability> missing{};
  double best_s = std::numeric_limits<double>::infinity();
  std::int64_t lower_ns = std::numeric_limits<std::int64_t>::max();
  bool solved = true;
  std::int64_t count = 0;
};

std::vector<PipelineChoice> choices_of(const std::string& schedule, std::size_t microbatches, int stages, int stages_per_device,
                                       bool replicated) {
  using Kind = PipelineChoice::Kind;
  const PipelineChoice placed = stages_per_device > 1 ? PipelineChoice{Kind::stages_per_device, stages_per_device, ""}
                                : replicated          ? PipelineChoice{Kind::replicas, 0, ""}
                                                      : PipelineChoice{Kind::stages, stages, ""};
  return {{Kind::schedule, 0, schedule}, {Kind::microbatches, static_cast<int>(microbatches), ""}, placed};
}

std::vector<PipelineChoice> choices_of(const PlanFamily& family) {
  return choices_of(family.schedule, family.sizes.size(), family.stages(), family.virtual_stages, family.replicated());
}

// Returns no choices where the plan is no pipeline.
std::vector<PipelineChoice> choices_of(const Plan& plan) {
  if (plan.num_stages() < 2) return {};
  std::vector<int> stages_on(plan.devices.size(), 0);
  for (const Stage& stage : plan.stages)
    for (const int device : stage.devices) ++stages_on[as_index(device)];
  return choices_of(plan.schedule, plan.microbatch_sizes.size(), plan.num_stages(), std::ranges::max(stages_on), has_replicas(plan));
}

void add(Summary& summary, const FamilyState& state) {
  const bool executable = state.family.executable();
  summary.count += state.family.plans;
  if (summary.executable && !executable) return;
  if (executable && !summary.executable) summary = Summary{.choice = summary.choice, .executable = true, .count = summary.count};
  if (!executable) summary.missing = state.family.missing;
  summary.best_s = std::min(summary.best_s, state.best_s);
  summary.lower_ns = std::min(summary.lower_ns, state.family.bound_ns);
  summary.fits |= state.fits;
  summary.solved &= state.proof.solved;
}

// Numbers of stages come first, whether they are of one device or of all.
std::tuple<bool, PipelineChoice::Kind, int, PipelineChoice::Kind, std::string> order_of(const PipelineChoice& choice) {
  using Kind = PipelineChoice::Kind;
  const bool stages = choice.kind == Kind::stages_per_device || choice.kind == Kind::stages;
  return {!stages, stages ? Kind::stages : choice.kind, choice.number, choice.kind, choice.schedule};
}

RejectedClass class_of(const Summary& summary, double best_s, const std::map<std::string, NotExecutable>& beyond) {
  using Why = RejectedClass::Why;
  const auto as = [&](Why why, double time_ratio = 0) {
    return RejectedClass{summary.choice, why, summary.missing, time_ratio, summary.count};
  };
  if (!summary.executable) {
    const bool of_schedule = summary.choice.kind == PipelineChoice::Kind::schedule;
    const auto seen = of_schedule ? beyond.find(summary.choice.schedule) : beyond.end();
    return as(summary.missing ? Why::not_executable : Why::rows_decide,
              seen == beyond.end() ? 0 : seen->second.candidate.prediction.step_s / best_s);
  }
  if (!summary.fits) return as(Why::too_large);
  const double bound = static_cast<double>(summary.lower_ns) * 1e-9 / best_s;
  if (bound > 1) return as(Why::slower_by_bound, bound);
  if (summary.best_s < std::numeric_limits<double>::infinity())
    return as(summary.solved ? Why::seen_and_proved : Why::seen, summary.best_s / best_s);
  return as(summary.solved ? Why::none_faster : Why::not_reached);
}

}  // namespace

std::vector<RejectedClass> rejected_classes(const std::vector<FamilyState>& families, const Candidate& best,
                                            const std::map<std::string, NotExecutable>& beyond) {
  std::vector<Summary> summaries;
  // These classes hold the best plan.
  const std::vector<PipelineChoice> chosen = choices_of(best.plan);
  for (const FamilyState& state : families) {
    for (const PipelineChoice& choice : choices_of(state.family)) {
      auto known = std::ranges::find(summaries, choice, &Summary::choice);
      if (known == summaries.end()) known = summaries.insert(summaries.end(), Summary{.choice = choice});
      add(*known, state);
    }
  }
  std::vector<RejectedClass> classes;
  for (const Summary& summary : summaries)
    if (std::ranges::find(chosen, summary.choice) == chosen.end()) classes.push_back(class_of(summary, best.prediction.step_s, beyond));
  std::ranges::sort(classes, {}, [](const RejectedClass& one) { return order_of(one.choice); });
  return classes;
}

}  // namespace mptune::planner
