#include "reports/cli/commands/simulate_topology.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/plan/file/plan_file.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/units.h"
#include "reports/cli/commands/topology_input.h"
#include "reports/cli/commands/worker_calls.h"
#include "reports/cli/options/runtime_option.h"
#include "reports/render/topology_text.h"

namespace mptune::reports {
namespace {

void refuse_devices_not_on_paper(const Plan& plan, const Profile& on_paper, const std::string& topology) {
  std::vector<std::string> known;
  for (const ProfileDevice& device : on_paper.devices) known.push_back(device.name);
  std::ranges::sort(known);
  for (const std::string& device : plan.devices)
    if (!std::ranges::binary_search(known, device))
      throw Error("the topology does not have the plan's device " + device, topology, "give the topology that the plan was made for");
}

struct PaperExcess {
  std::int64_t bytes = 0;
  std::string device;
};

PaperExcess excess_on_paper(const Plan& plan, const Prediction& prediction, const CostModel& cost) {
  PaperExcess most;
  const std::vector<int> indices = cost.device_indices(plan.devices);
  for (std::size_t d = 0; d < indices.size(); ++d) {
    const std::int64_t cap = cost.profile().devices[as_index(indices[d])].memory_bytes;
    const std::int64_t over = cap > 0 ? prediction.peak_bytes[d] - cap : 0;
    if (over > most.bytes) most = {over, plan.devices[d]};
  }
  return most;
}

planner::Json paper_json(const PlanFile& file, const Prediction& prediction, const TopologyReport& report, const TopologyInput& input) {
  planner::Json json = result_of("simulate");
  json["plan"] = planner::plan_object(file.plan, file.modules);
  json["predicted"] = to_json_object(prediction);
  json["bubble"] = std::clamp(1 - report.busy, 0.0, 1.0);
  json["lower_bound_s"] = prediction.lower_bound_s;
  json["assumed"] = input.assumed;
  json["runtime"] = name_of(input.on_paper.runtime);
  json["topology"] = topology_json(report);
  return json;
}

}  // namespace

int simulate_on_topology(const std::string& plan, const std::string& profile, const std::string& topology, const std::string& memory,
                         bool renamed, Runtime runtime, const Session& session) {
  const PlanFile file = load_plan_file(plan);
  TopologyInput input = read_on_topology(profile, topology, memory, "");
  input.on_paper.runtime = runtime;
  refuse_devices_not_on_paper(file.plan, input.on_paper, topology);
  validate(file.plan, static_cast<int>(input.profile.layers.size()), plan);
  check_names(session, file, input.profile.layers, input.profile.model, plan, renamed);
  check_runs_on(runtime, file.plan, plan);
  const CostModel cost(input.on_paper, file.plan);
  const Candidate candidate{file.plan, predict(file.plan, cost)};
  TopologyReport report = build_topology_report(candidate, cost, input.topology);
  report.bound_of = "these stages, in any order";
  const PaperExcess excess = excess_on_paper(file.plan, candidate.prediction, cost);
  if (excess.bytes > 0)
    report.notes.push_back(fmt::format("does not fit: {} needs {} more than it has", excess.device, format_bytes(excess.bytes)));
  if (std::string note = runtime_note(runtime); !note.empty()) report.notes.push_back(std::move(note));
  for (const std::string& assumption : input.assumed) report.notes.push_back("assumed " + assumption);
  session.result(render_topology_report(report, session.style), paper_json(file, candidate.prediction, report, input));
  return static_cast<int>(excess.bytes > 0 ? ExitCode::infeasible : ExitCode::done);
}

}  // namespace mptune::reports
