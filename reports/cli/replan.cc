#include "reports/cli/replan.h"

#include <fmt/format.h>

#include <utility>

#include "planner/search/search.h"
#include "profiler/base/device_spec.h"
#include "profiler/base/error.h"
#include "profiler/base/temporary_folder.h"
#include "profiler/device/device_list.h"
#include "profiler/store/store.h"
#include "reports/cli/fit_errors.h"
#include "reports/cli/plan_choice.h"
#include "reports/cli/progress.h"
#include "reports/cli/search_limit.h"
#include "reports/cli/with_ranks.h"
#include "reports/cli/worker_calls.h"
#include "reports/render/units.h"

namespace mptune::reports {
namespace {

constexpr std::int64_t kSearchActions = 2'000'000;  // a few seconds

PlanChoice same_numbers(const Plan& plan) {
  PlanChoice choice;
  choice.microbatches = std::to_string(plan.num_microbatches());
  choice.memory_format = name_of(plan.options.memory_format);
  choice.exact = true;
  return choice;
}

std::vector<std::string> devices_of_started_ranks(const Plan& plan, const RankPlace& place) {
  std::vector<std::string> left;
  for (const std::string& device : plan.devices)
    if (parse_device(device).rank < place.ranks) left.push_back(device);
  if (left.empty()) throw Error("the plan has no device of the ranks that were started", "--replan", "start more ranks");
  return left;
}

Profile measured(const tuner::TrainingSetup& setup, const PlanChoice& choice, const Session& session) {
  const TemporaryFolder folder;
  const std::string path = folder.file("profile.sqlite");
  ProgressLine progress(session);
  progress.update("measuring layers and links", 0);
  measure_profile(setup, path, kMeasureSeconds, choice, nullptr, session, wait_options(session), progress);
  std::optional<Profile> profile = profiler::read_recording(path).profile;
  if (!profile)
    throw Error("mptune-worker measured nothing", setup.model, "make sure that both programs are of the same build", ExitCode::internal);
  return *std::move(profile);
}

}  // namespace

bool has_other_ranks(const Plan& plan, const RankPlace& place) {
  return ranks_of(plan.devices) != place.ranks;
}

PlanFile replanned(const PlanFile& file, const tuner::TrainingSetup& setup, const RankPlace& place, const Session& session) {
  tuner::TrainingSetup left = setup;
  left.devices = devices_of_started_ranks(file.plan, place);
  check_ranks(left.devices, place);
  const PlanChoice choice = same_numbers(file.plan);
  const Profile profile = measured(left, choice, session);
  SearchSpace space = search_space(choice, parse_device_names(left.devices), caps_of(left.devices, left), left.batch, profile.layers);
  space.whole_machine.clear();
  space.look_beyond = false;
  SearchLimit limit("");
  limit.bound(1, kSearchActions, space);
  const SearchResult found = search_plans(space, profile);
  if (SearchLimit::interrupted()) throw tuner::interrupt_error("mptune run", "start the command again");
  if (found.ranked.empty()) throw nothing_fits(space, found, CostModel(profile, space.variants.front()));
  const Candidate& best = found.ranked.front();
  session.say(fmt::format("{} of {} ranks were started, so the plan is made anew: {}, step {} predicted", place.ranks,
                          ranks_of(file.plan.devices), describe(best.plan), format_seconds(best.prediction.step_s)));
  PlanFile made;
  made.plan = best.plan;
  made.plan.microbatch_sizes = file.plan.microbatch_sizes;  // searched were as many of equal size
  made.modules = stage_modules(made.plan, profile.layers);
  return made;
}

}  // namespace mptune::reports
