#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <fstream>
#include <memory>

#include "mptune/profiler/base/error.h"
#include "mptune/profiler/base/units.h"
#include "mptune/profiler/device/device_list.h"
#include "mptune/reports/cli/commands.h"
#include "mptune/reports/cli/options.h"
#include "mptune/reports/render/table.h"
#include "mptune/tuner/live/worker_process.h"

namespace mptune {
namespace {

Finding temporary_folder() {
  try {
    const TemporaryFolder folder;
    return {"temporary folder", FindingStatus::ok, "can be written", ""};
  } catch (const Error& error) {
    return {"temporary folder", FindingStatus::error, error.what(), error.remedy()};
  }
}

Finding driver() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  if (std::getline(file, line)) {
    return {"NVIDIA driver", FindingStatus::ok, line, ""};
  }
  return {"NVIDIA driver", FindingStatus::ok, "none: CPU devices only", ""};
}

/// What can be said without LibTorch.
std::vector<Finding> local_findings() {
  std::vector<Finding> findings = {{"mptune", FindingStatus::ok, MPTUNE_VERSION, ""}};
  const std::size_t cores = available_cores().size();
  findings.push_back({"cores", cores > 1 ? FindingStatus::ok : FindingStatus::warning, std::to_string(cores),
                      cores > 1 ? "" : "allow this process more cores: one core is one device, and a plan needs several"});
  const std::int64_t memory = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  findings.push_back({"memory", FindingStatus::ok, format_bytes(memory), ""});
  findings.push_back(driver());
  findings.push_back(temporary_folder());
  return findings;
}

void add_worker_findings(const DeviceOptions& options, std::vector<Finding>& findings) {
  DoctorRequest request;
  request.setup = make_setup({}, options, {});
  try {
    call_worker(request, 120, [&](const Reply& reply) {
      if (const auto* answer = std::get_if<Findings>(&reply)) {
        findings.insert(findings.end(), answer->findings.begin(), answer->findings.end());
      }
    });
  } catch (const Error& error) {
    if (error.code() == ExitCode::interrupted || error.code() == ExitCode::terminated) {
      throw;
    }
    findings.push_back({"mptune-worker", FindingStatus::error, std::string(error.what()) + " (" + error.where() + ")", error.remedy()});
  }
}

std::string name_of(FindingStatus status) {
  return kFindingStatusNames[static_cast<std::size_t>(status)];
}

Color color_of(FindingStatus status) {
  constexpr std::array kColors = {Color::green, Color::yellow, Color::red};
  return kColors[static_cast<std::size_t>(status)];
}

int run_doctor(const DeviceOptions& options, const Session& session) {
  session.say("looking at this machine");
  std::vector<Finding> findings = local_findings();
  add_worker_findings(options, findings);
  Json json = result_of("doctor");
  json["findings"] = Json::array();
  std::vector<std::vector<Cell>> rows;
  for (const Finding& finding : findings) {
    json["findings"].push_back(
        {{"name", finding.name}, {"status", name_of(finding.status)}, {"value", finding.value}, {"remedy", finding.remedy}});
    const std::string remedy = finding.remedy.empty() ? "" : (finding.value.empty() ? "" : "; ") + finding.remedy;
    rows.push_back({finding.name, {name_of(finding.status), color_of(finding.status)}, finding.value + remedy});
  }
  session.result(render_table({{"what"}, {"status"}, {"found; remedy"}}, rows, session.style), json);
  const bool broken = std::ranges::any_of(findings, [](const Finding& finding) { return finding.status == FindingStatus::error; });
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

}  // namespace mptune
