#include "reports/cli/commands/replan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "planner/plan/plan_words.h"
#include "planner/search/search.h"
#include "profiler/base/device_spec.h"
#include "profiler/base/error.h"
#include "profiler/base/temporary_folder.h"
#include "profiler/device/list/device_list.h"
#include "profiler/trace/store/store.h"
#include "reports/cli/commands/fit_errors.h"
#include "reports/cli/commands/worker_calls.h"
#include "reports/cli/options/plan_choice.h"
#include "reports/cli/options/rank_options.h"
#include "reports/cli/options/search_limit.h"
#include "reports/cli/program/progress.h"
#include "reports/render/units.h"

namespace mptune::reports {
namespace {

constexpr std::int64_t kSearchActions = 2'000'000;  // a few seconds
constexpr int kKept = 64;                           // number of plans; the fastest may leave ranks without a device

bool devices_of_all_ranks(const std::vector<std::string>& devices, const RankPlace& place) {
  std::set<int> ranks;
  for (const std::string& device : devices) ranks.insert(parse_device(device).rank);
  return std::ssize(ranks) == place.ranks;
}

PlanChoice same_numbers(const Plan& plan) {
  PlanChoice choice;
  choice.microbatches = std::to_string(plan.num_microbatches());
  choice.memory_format = name_of(plan.options.memory_format);
  choice.exact = true;
  return choice;
}

// Every rank must have a device, as a rank without one can't train.
const Candidate& fastest_on_all_ranks(const SearchResult& found, const RankPlace& place) {
  const auto uses_all = [&](const Candidate& candidate) { return devices_of_all_ranks(candidate.plan.devices, place); };
  const auto fastest = std::ranges::find_if(found.ranked, uses_all);
  if (fastest == found.ranked.end())
    throw Error(fmt::format("no plan was found that has devices of all {} ranks", place.ranks), "--replan",
                "start fewer ranks, or leave --plan out and name a plan: --stages");
  return *fastest;
}

Profile measured(const tuner::TrainingSetup& setup, const PlanChoice& choice, const Session& session) {
  const TemporaryFolder folder;
  const std::string path = folder.file("profile.sqlite");
  ProgressLine progress(session);
  progress.update("measuring layers and links", 0);
  measure_profile(setup, path, {kMeasureSeconds}, choice, nullptr, session, wait_options(session), progress);
  std::optional<Profile> profile = profiler::read_recording(path).profile;
  if (!profile)
    throw Error("mptune-worker measured nothing", setup.model, "make sure that both programs are of the same build", ExitCode::internal);
  return *std::move(profile);
}

/// Only caps may change: the plan's numbers stay, whatever would fit with others.
planner::SearchWith with_other_caps(const SearchSpace& space, const Profile& profile) {
  return [&](const std::vector<planner::FieldValue>& options) {
    const std::string memory = option_or(options, planner::Field::memory, "");
    if (memory.empty()) return SearchResult{};
    SearchSpace wanted = space;
    wanted.memory_bytes = memory_caps(memory, parse_device_names(space.devices), {});
    return planner::quick_search(std::move(wanted), profile);
  };
}

}  // namespace

std::vector<std::string> of_started_ranks(const std::vector<std::string>& devices, const RankPlace& place) {
  std::vector<std::string> left;
  for (const std::string& device : devices)
    if (parse_device(device).rank < place.ranks) left.push_back(device);
  if (left.empty()) throw Error("none of the devices belongs to a rank that was started", "--replan", "start more ranks");
  return left;
}

bool has_other_devices(const Plan& plan, const std::vector<std::string>& devices) {
  return std::set(plan.devices.begin(), plan.devices.end()) != std::set(devices.begin(), devices.end());
}

PlanFile replanned(const PlanFile& file, const tuner::TrainingSetup& setup, const RankPlace& place, const Session& session) {
  check_ranks(setup.devices, place);
  const PlanChoice choice = same_numbers(file.plan);
  const Profile profile = measured(setup, choice, session);
  SearchSpace space = search_space(choice, parse_device_names(setup.devices), caps_of(setup.devices, setup), setup.batch, profile.layers);
  space.whole_machine.clear();
  space.look_beyond = false;
  space.keep = kKept;
  SearchLimit limit("");
  limit.bound(1, kSearchActions, space);
  const SearchResult found = search_plans(space, profile);
  if (SearchLimit::interrupted()) throw tuner::interrupt_error("mptune run", "start the command again");
  if (found.ranked.empty()) throw nothing_fits(space, found, profile, with_other_caps(space, profile));
  const Candidate& best = fastest_on_all_ranks(found, place);
  session.say(fmt::format("the plan was for {}; made anew for {}: {}, step {} predicted", fmt::join(file.plan.devices, ", "),
                          fmt::join(setup.devices, ", "), describe(best.plan), format_seconds(best.prediction.step_s)));
  PlanFile made;
  made.plan = best.plan;
  made.plan.microbatch_sizes = file.plan.microbatch_sizes;  // the search had as many micro-batches of equal size
  made.modules = stage_modules(made.plan, profile.layers);
  return made;
}

}  // namespace mptune::reports
