#include "reports/cli/commands/plan_topology.h"

#include <fmt/format.h>

#include <chrono>

#include "planner/search/cut_places.h"
#include "planner/search/found_plan_file.h"
#include "planner/search/space/plan_checks.h"
#include "planner/topology/topology_search.h"
#include "profiler/base/error.h"
#include "profiler/base/shell_command.h"
#include "profiler/base/text.h"
#include "profiler/base/units.h"
#include "profiler/trace/values/samples_taken.h"
#include "reports/cli/commands/plan_output.h"
#include "reports/cli/commands/topology_input.h"
#include "reports/cli/commands/topology_remedies.h"
#include "reports/cli/options/runtime_option.h"
#include "reports/cli/options/search_limit.h"
#include "reports/cli/program/interrupt_watchdog.h"
#include "reports/cli/program/progress.h"
#include "reports/render/topology_text.h"
#include "tuner/worker/host/interrupt.h"

namespace mptune::reports {
namespace {

/// Limit of the work without --time, in simulated actions.
constexpr std::int64_t kPaperActions = 60'000'000;

void check_paper_options(const TopologyCommand& command) {
  PlanChoice others = command.choice;
  others.stages = others.microbatches = others.schedule = others.cut_at = "";
  if (command.refused.empty() && !others.any()) return;
  throw Error("plans for a topology do not take " + (command.refused.empty() ? others.given() : command.refused), "--topology",
              "leave it out; --batch, --memory, --stages, --cut-at, --microbatches, --schedule, --runtime and --time may stand beside it");
}

/// Returns, for a profile of one micro-batch size, the number of micro-batches of that size.
std::vector<int> counts_of_one_size(const Profile& profile, int batch, const std::string& path) {
  const std::vector<LayerCost>& sizes = profile.classes.front().layers.front().by_samples;
  if (sizes.size() != 1) return {};
  const int size = sizes.front().samples;
  if (batch % size != 0)
    throw Error("the profile has micro-batches of " + std::to_string(size) + " samples alone, which do not divide the batch", path,
                "give --batch a multiple of " + std::to_string(size));
  return {batch / size};
}

int batch_of(const TopologyCommand& command, const Profile& profile) {
  if (command.batch.empty() && profile.batch < 1) throw Error("the file does not say the batch", command.profile, "give --batch N");
  return static_cast<int>(parse_whole(command.batch, "--batch", 1, kMostBatch, profile.batch));
}

std::vector<std::string> paper_schedules(const TopologyCommand& command) {
  SearchSpace asked;
  if (!command.choice.schedule.empty()) asked.schedules = {command.choice.schedule};
  restrict_to(command.runtime, asked);
  if (command.choice.schedule.empty()) std::erase(asked.schedules, "interleaved");  // on paper a device has one stage
  return asked.schedules.empty() ? planner::UniformSpace().schedules : asked.schedules;
}

planner::UniformSpace space_of(const TopologyCommand& command, const TopologyInput& input) {
  planner::UniformSpace space;
  space.where = command.topology;
  space.batch = batch_of(command, input.profile);
  space.samples = profiler::samples_taken(input.profile.layers);
  space.schedules = paper_schedules(command);
  if (const int stages = parse_count(command.choice.stages, "--stages", planner::Topology::kMostDevices); stages > 0)
    space.stage_counts = {stages};
  const int count = parse_count(command.choice.microbatches, "--microbatches", kMostBatch);
  space.microbatch_counts = count > 0 ? std::vector<int>{count} : counts_of_one_size(input.profile, space.batch, command.profile);
  return space;
}

struct PaperSearch {
  SearchResult result;
  SearchLimit limit;
};

PaperSearch search_on_paper(const TopologyCommand& command, planner::UniformSpace& space, const TopologyInput& input,
                            const Session& session) {
  PaperSearch search{{}, SearchLimit(command.time)};
  if (!search.limit.has_time()) space.most_actions = kPaperActions;
  space.stop = [&] { return SearchLimit::interrupted() || search.limit.out_of_time(1); };
  ProgressLine progress(session);
  progress.update("searching plans for " + planner::describe(input.topology), -1);
  space.improved = [&](const Candidate& candidate) { progress.note("best " + format_seconds(candidate.prediction.step_s)); };
  leave_time_to_finish();
  search.result = planner::search_uniform(space, input.topology, input.profile);
  space.stop = nullptr;
  space.improved = nullptr;
  return search;
}

/// Returns the options that restrict the search.
std::vector<planner::Field> given_fields(const PlanChoice& choice) {
  std::vector<planner::Field> given;
  for (const auto& [field, value] :
       {std::pair{planner::Field::stages, &choice.stages}, std::pair{planner::Field::cut_at, &choice.cut_at},
        std::pair{planner::Field::microbatches, &choice.microbatches}, std::pair{planner::Field::schedule, &choice.schedule}})
    if (!value->empty()) given.push_back(field);
  return given;
}

Error nothing_on_paper(const TopologyCommand& command, const TopologyInput& input, const planner::UniformSpace& space,
                       const PaperSearch& search) {
  const auto interrupted = [] { return tuner::interrupt_error("mptune plan", "no plan was found yet; start the command again"); };
  if (SearchLimit::interrupted()) return interrupted();
  if (search.limit.out_of_time(1))
    return {"no plan that fits was found in time", "--time", "give more time, or leave --time out", ExitCode::no_result};
  const SearchResult& result = search.result;
  const std::string closest = result.smallest_excess_bytes > 0 ? ": the closest plan needs " + format_bytes(result.smallest_excess_bytes) +
                                                                     " more on " + result.smallest_excess_device
                                                               : "";
  const PaperQuestion question{space, input.topology, input.profile, given_fields(command.choice), SearchLimit::interrupted};
  const std::vector<std::string> changes = changes_on_paper(question, result);
  if (SearchLimit::interrupted()) return interrupted();
  const std::string none = "nothing that can be changed here fits" + (result.smallest_excess_bytes > 0
                                                                          ? ": " + format_bytes(result.smallest_excess_bytes) +
                                                                                " more are missing on " + result.smallest_excess_device
                                                                          : "");
  return {"no plan fits the devices' memory" + closest, command.topology,
          changes.empty() ? none : "it fits with " + join(changes, ", or with "), ExitCode::infeasible};
}

std::string bound_words(const planner::UniformSpace& space) {
  return "plans of equal replicas and equal micro-batches, " + join(space.schedules, " or ");
}

/// Says how an alternative differs, without names of devices: hundreds of them say nothing.
std::string compared_on_paper(const Candidate& best, const Candidate& other) {
  return fmt::format("{} slower: {}", format_percent(other.prediction.step_s / best.prediction.step_s - 1), describe_on_paper(other.plan));
}

/// Returns the JSON of the search with the words for plans on paper.
planner::Json paper_search_json(const SearchResult& result, const Profile& on_paper, double search_s, const std::string& path) {
  planner::Json json = searched_plan_json(result, {}, on_paper, search_s, path);
  for (std::size_t i = 1; i < result.ranked.size(); ++i) {
    json["alternatives"][i - 1]["description"] = describe_on_paper(result.ranked[i].plan);
    json["alternatives"][i - 1]["reason"] = compared_on_paper(result.ranked.front(), result.ranked[i]);
  }
  return json;
}

planner::Json memory_rows_json(const Plan& plan, const Prediction& prediction, const CostModel& cost) {
  std::vector<MemoryRow> rows;
  const std::vector<int> indices = cost.device_indices(plan.devices);
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    MemoryRow row;
    row.device = plan.devices[d];
    row.peak_bytes = prediction.peak_bytes[d];
    row.cap_bytes = cost.profile().devices[static_cast<std::size_t>(indices[d])].memory_bytes;
    rows.push_back(std::move(row));
  }
  return memory_json(rows);
}

}  // namespace

int plan_on_topology(const TopologyCommand& command, const Session& session) {
  check_paper_options(command);
  TopologyInput input = read_on_topology(command.profile, command.topology, command.memory, command.encoder_layers);
  if (const std::string& pattern = command.choice.cut_at; !pattern.empty()) {
    const std::vector<int> places = planner::cut_places(pattern, input.profile.layers);
    planner::check_cut_places({}, places, parse_count(command.choice.stages, "--stages", planner::Topology::kMostDevices));
    input.profile = planner::with_cut_places(std::move(input.profile), places);
  }
  const std::string path = command.output.path.empty() ? model_stem(input.profile.model) + ".plan.json" : command.output.path;
  check_plan_output(path, command.output.force, {command.profile, command.topology});
  input.profile.runtime = input.on_paper.runtime = command.runtime;
  planner::UniformSpace space = space_of(command, input);
  const PaperSearch search = search_on_paper(command, space, input, session);
  if (search.result.ranked.empty()) throw nothing_on_paper(command, input, space, search);
  const double search_s = search.limit.elapsed_s();
  const Candidate& best = search.result.ranked.front();
  const std::string now = utc_text(std::chrono::system_clock::now());
  save_plan_file(planner::found_plan_file(search.result, input.on_paper, now, compared_on_paper), path, command.output.force);
  const CostModel cost(input.on_paper, best.plan);
  TopologyReport report = build_topology_report(best, cost, input.topology);
  report.lower_bound_s = search.result.lower_bound_s;
  report.proved = search.result.complete;
  report.bound_of = bound_words(space);
  report.notes.push_back(fmt::format("{} plans simulated in {}", format_count(search.result.simulated), format_seconds(search_s)));
  if (std::string runtime = runtime_note(command.runtime); !runtime.empty()) report.notes.push_back(std::move(runtime));
  for (const std::string& assumption : input.assumed) report.notes.push_back("assumed " + assumption);
  report.notes.push_back("plan    " + path);
  planner::Json json = paper_search_json(search.result, input.on_paper, search_s, path);
  json["memory"] = memory_rows_json(best.plan, best.prediction, cost);
  json["assumed"] = input.assumed;
  json["runtime"] = name_of(command.runtime);
  json["topology"] = topology_json(report);
  session.result(render_topology_report(report, session.style), json);
  if (!SearchLimit::interrupted()) return 0;
  const tuner::InterruptText interrupt =
      tuner::interrupt_text(path + " is the best plan found so far; start the command again to search on to the end");
  session.warn(interrupt.what + ": " + interrupt.remedy);
  return static_cast<int>(interrupt.code);
}

}  // namespace mptune::reports
