#include "tuner/study/stored_recommendation.h"

#include <algorithm>

#include "planner/cost/pool_costs.h"
#include "profiler/base/error.h"
#include "profiler/base/shell_command.h"
#include "profiler/trace/store/store.h"
#include "tuner/study/recommend/finalists.h"
#include "tuner/study/recommend/kinds.h"
#include "tuner/study/retry.h"

namespace mptune::tuner {
namespace {

std::string resume_command(const std::string& folder) {
  return ShellCommand("mptune tune --resume").file(folder).text();
}

Error incomplete(const Study& study) {
  const std::vector<Trial> trials = study.trials();
  if (all_failed_for_good(trials))
    return {"no plan of this study could be measured: " + outcome_text(trials.back().outcome), study.folder(),
            "train with a plan of its folder 'failed' (run --plan) to see why, then tune again", ExitCode::no_result};
  return {"this study has no result yet", study.folder(), "go on with `" + resume_command(study.folder()) + "`", ExitCode::no_result};
}

/// Studies of earlier versions do not list the baselines; the baselines that were tried are known by their trials.
std::vector<PlannedBaseline> known_baselines(const StudySummary& summary, const std::vector<Trial>& trials) {
  if (!summary.baselines.empty()) return summary.baselines;
  std::vector<PlannedBaseline> tried;
  for (const Trial& trial : trials)
    if (trial.name != kCandidateName && std::ranges::find(tried, trial.name, &PlannedBaseline::name) == tried.end())
      tried.push_back({trial.name, trial.plan_key, {}, 0});
  return tried;
}

}  // namespace

StudySummary summary_of(const Study& study) {
  auto summary = study.summary();
  if (!summary) throw incomplete(study);
  return std::move(*summary);
}

Profile profile_of(const Study& study) {
  auto profile = profiler::read_recording(study.profile_path()).profile;
  if (!profile) throw Error("the study has no profile", study.profile_path(), "go on with `" + resume_command(study.folder()) + "`");
  return planner::with_pool_devices(std::move(*profile));
}

Recommendation recommendation_of(const Study& study, const StudySummary& summary, const Profile& profile) {
  SearchSpace space;
  space.devices = summary.devices;
  space.whole_machine = summary.whole_machine;
  space.batch = summary.batch;
  std::vector<Trial> finals;
  const std::optional<int> series = study.final_series();
  const std::vector<Trial> trials = study.trials();
  std::ranges::copy_if(trials, std::back_inserter(finals), [&](const Trial& trial) { return trial.series == series; });
  const std::vector<planner::NamedPlan> baselines =
      planner::baseline_plans(space, static_cast<int>(profile.layers.size()), profile.precision);
  finals = with_every_name(std::move(finals), baselines);
  auto found = recommend(finals, single_device_peak(baselines, trials, profile), study.not_benchmarked(),
                         unmeasured_plans(finals, trials, known_baselines(summary, trials)));
  if (!found) throw incomplete(study);
  warn_of_changes(*found, profile.layers);
  say_what_was_asked(*found, summary.asked);
  found->kinds = compare_kinds(found->recommended, finals, trials, summary.kinds);
  return std::move(*found);
}

}  // namespace mptune::tuner
