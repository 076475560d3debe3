#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/temporary_folder.h"
#include "profiler/base/units.h"
#include "profiler/device/list/device_list.h"
#include "reports/cli/commands/commands.h"
#include "reports/cli/commands/worker_calls.h"
#include "reports/cli/options/options.h"
#include "reports/render/table.h"
#include "tuner/worker/host/interrupt.h"
#include "tuner/worker/host/worker_process.h"

namespace mptune::reports {
namespace {

tuner::Finding temporary_folder() {
  try {
    const TemporaryFolder folder;
    return {"temporary folder", tuner::FindingStatus::ok, "can be written", ""};
  } catch (const Error& error) {
    return {"temporary folder", tuner::FindingStatus::error, error.problem(), error.remedy()};
  }
}

/// Returns what can be said without LibTorch.
std::vector<tuner::Finding> local_findings() {
  std::vector<tuner::Finding> findings = {{"mptune", tuner::FindingStatus::ok, MPTUNE_VERSION, ""}};
  const std::size_t cores = available_cores().size();
  findings.push_back({"cores", cores > 1 ? tuner::FindingStatus::ok : tuner::FindingStatus::warning, std::to_string(cores),
                      cores > 1 ? "" : "allow this process more cores: one core is one device, and a plan needs several"});
  const std::int64_t memory = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  findings.push_back({"memory", tuner::FindingStatus::ok, format_bytes(memory), ""});
  findings.push_back(temporary_folder());
  return findings;
}

void add_worker_findings(const DeviceOptions& options, const tuner::WaitOptions& wait, std::vector<tuner::Finding>& findings) {
  tuner::DoctorRequest request;
  request.setup = make_setup({}, options, {});
  try {
    tuner::call_worker(request, wait, [&](const tuner::Reply& reply) {
      if (const auto* answer = std::get_if<tuner::Findings>(&reply))
        findings.insert(findings.end(), answer->findings.begin(), answer->findings.end());
    });
  } catch (const Error& error) {
    if (tuner::interrupt_flag().load() != 0) throw;
    findings.push_back({"mptune-worker", tuner::FindingStatus::error, error.problem() + " (" + error.where() + ")", error.remedy()});
  }
}

std::string name_of(tuner::FindingStatus status) {
  return tuner::kFindingStatusNames[as_index(status)];
}

Color color_of(tuner::FindingStatus status) {
  constexpr std::array kColors = {Color::green, Color::yellow, Color::red};
  return kColors[as_index(status)];
}

int run_doctor(const DeviceOptions& options, const Session& session) {
  session.say("looking at this machine");
  std::vector<tuner::Finding> findings = local_findings();
  add_worker_findings(options, wait_options(session), findings);
  planner::Json json = result_of("doctor");
  json["findings"] = planner::Json::array();
  std::vector<std::vector<Cell>> rows;
  for (const tuner::Finding& finding : findings) {
    json["findings"].push_back(
        {{"name", finding.name}, {"status", name_of(finding.status)}, {"value", finding.value}, {"remedy", finding.remedy}});
    const std::string remedy = finding.remedy.empty() ? "" : (finding.value.empty() ? "" : "; ") + finding.remedy;
    rows.push_back({finding.name, {name_of(finding.status), color_of(finding.status)}, finding.value + remedy});
  }
  session.result(render_table({{"what"}, {"status"}, {"found; remedy"}}, rows, session.style), json);
  const bool broken =
      std::ranges::any_of(findings, [](const tuner::Finding& finding) { return finding.status == tuner::FindingStatus::error; });
  return static_cast<int>(broken ? ExitCode::environment : ExitCode::done);
}

}  // namespace

void add_doctor_command(CLI::App& program, CommandBody& chosen) {
  auto options = std::make_shared<DeviceOptions>();
  CLI::App* command = program.add_subcommand("doctor", "Says what this machine has and what is missing, with remedies");
  add_device_options(*command, *options);
  command->footer("Example:\n  mptune doctor --devices cpu:0,cpu:1");
  command->callback([options, &chosen] { chosen = [options](const Session& session) { return run_doctor(*options, session); }; });
}

}  // namespace mptune::reports
