#include "tuner/stored_recommendation.h"

#include "planner/cost/pool_costs.h"
#include "profiler/base/error.h"
#include "profiler/store/store.h"
#include "tuner/finalists.h"
#include "tuner/kinds.h"

namespace mptune::tuner {
namespace {

Error incomplete(const Study& study) {
  return {"this study has no result yet", study.folder(), "go on with mptune tune --resume", ExitCode::no_result};
}

}  // namespace

StudySummary summary_of(const Study& study) {
  auto summary = study.summary();
  if (!summary) throw incomplete(study);
  return std::move(*summary);
}

Profile profile_of(const Study& study) {
  auto profile = profiler::read_recording(study.profile_path()).profile;
  if (!profile) throw Error("the study has no profile", study.profile_path(), "go on with mptune tune --resume");
  return planner::with_pool_devices(std::move(*profile));
}

Recommendation recommendation_of(const Study& study, const StudySummary& summary, const Profile& profile) {
  SearchSpace space;
  space.devices = summary.devices;
  space.whole_machine = summary.whole_machine;
  space.batch = summary.batch;
  std::vector<Trial> finals;
  std::int64_t single_device_peak = 0;
  const std::optional<int> series = study.final_series();
  const std::vector<Trial> trials = study.trials();
  for (const Trial& trial : trials) {
    if (trial.series == series) finals.push_back(trial);
    if (trial.name == kSingleDeviceBaseline && single_device_peak == 0) single_device_peak = largest_peak(trial);
  }
  finals = with_every_name(std::move(finals), baseline_plans(space, static_cast<int>(profile.layers.size())));
  auto found = recommend(finals, single_device_peak, study.not_benchmarked());
  if (!found) throw incomplete(study);
  found->kinds = compare_kinds(found->recommended, finals, trials, summary.kinds);
  return std::move(*found);
}

}  // namespace mptune::tuner
