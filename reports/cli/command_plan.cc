#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>

#include "mptune/profiler/store/store.h"
#include "mptune/profiler/trace/error.h"
#include "mptune/profiler/trace/text.h"
#include "mptune/reports/cli/commands.h"
#include "mptune/reports/cli/options.h"
#include "mptune/reports/cli/plan_output.h"
#include "mptune/reports/render/report_text.h"
#include "mptune/reports/render/table.h"
#include "mptune/reports/render/units.h"

namespace mptune {
namespace {

constexpr std::size_t kShownPlans = 12;
constexpr std::size_t kAlternatives = 5;

struct PlanCommand {
  std::string profile;
  std::string devices, memory;
  std::string batch;
  PlanChoice choice;
  OutputOptions output;
};

/// The profile's devices but the one of all cores, which the others make up.
std::vector<DeviceSpec> profiled_devices(const Profile& profile) {
  std::vector<DeviceSpec> devices;
  for (const ProfileDevice& device : profile.devices) {
    devices.push_back(parse_device(device.name));
  }
  for (const DeviceSpec& whole : devices) {
    std::vector<DeviceSpec> others;
    std::ranges::copy_if(devices, std::back_inserter(others), [&](const DeviceSpec& device) { return device.name != whole.name; });
    if (whole_machine_device(others) == whole.name) {
      return others;
    }
  }
  return devices;
}

std::vector<DeviceSpec> chosen_devices(const PlanCommand& command, const Profile& profile) {
  const std::vector<DeviceSpec> profiled = profiled_devices(profile);
  if (command.devices.empty()) {
    return profiled;
  }
  // A plan on paper needs none of its devices here: only the profile must know them.
  std::vector<DeviceSpec> devices;
  for (const std::string& name : split(command.devices, ',')) {
    const auto found = std::ranges::find(profiled, name, &DeviceSpec::name);
    if (found == profiled.end()) {
      throw Error("device '" + name + "' is not in the profile", "--devices", "use devices that were profiled, or profile again");
    }
    devices.push_back(*found);
  }
  return devices;
}

std::vector<std::int64_t> caps_of(const PlanCommand& command, const std::vector<DeviceSpec>& devices, const Profile& profile) {
  std::vector<std::int64_t> caps = parse_memory(command.memory, devices);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const auto known = std::ranges::find(profile.devices, devices[i].name, &ProfileDevice::name);
    if (caps[i] == 0 && known != profile.devices.end()) {
      caps[i] = known->memory_bytes;
    }
  }
  return caps;
}

[[noreturn]] void refuse_infeasible(const SearchResult& result) {
  throw Error("no plan fits: the nearest one needs " + format_bytes(result.smallest_excess_bytes) + " more",
              result.smallest_excess_device.empty() ? "--memory" : result.smallest_excess_device,
              "raise --memory, use smaller micro-batches or recomputation, or name more devices", ExitCode::infeasible);
}

/// As `--cuts` takes them.
std::string cuts_of(const Plan& plan) {
  std::vector<std::string> cuts;
  for (int s = 1; s < plan.num_stages(); ++s) {
    cuts.push_back(std::to_string(plan.stages[static_cast<std::size_t>(s)].first_layer));
  }
  return join(cuts, ",");
}

std::string ranking(const SearchResult& result, const TextStyle& style) {
  std::vector<std::vector<Cell>> rows;
  for (std::size_t i = 0; i < std::min(kShownPlans, result.ranked.size()); ++i) {
    const Candidate& candidate = result.ranked[i];
    const auto& peaks = candidate.prediction.peak_bytes;
    rows.push_back({std::to_string(i + 1), format_seconds(candidate.prediction.step_s),
                    format_percent(candidate.prediction.step_s / result.ranked.front().prediction.step_s - 1),
                    peaks.empty() ? "" : format_bytes(std::ranges::max(peaks)), cuts_of(candidate.plan), describe(candidate.plan)});
  }
  return render_table({{"rank", true}, {"step", true}, {"slower", true}, {"peak", true}, {"cuts"}, {"plan"}}, rows, style);
}

std::string slower_than(const Candidate& best, const Candidate& other) {
  return format_percent(other.prediction.step_s / best.prediction.step_s - 1) + " slower on paper: " + describe(other.plan);
}

/// A plan file's keys and those of a search: whoever reads plan files reads this object, too.
Json plan_json(const SearchResult& result, const Fingerprint& fingerprint, double search_s,
               const std::vector<std::vector<std::string>>& modules, const std::string& file) {
  const Candidate& best = result.ranked.front();
  Json json = result_of("plan");
  json["plan_file"] = file;
  json["fingerprint"] = fingerprint_object(fingerprint);
  json["plan"] = plan_object(best.plan, stage_modules(best.plan, modules));
  json["plan_key"] = plan_key(best.plan);
  json["predicted"] = to_json_object(best.prediction);
  json["lower_bound_s"] = result.lower_bound_s;
  json["gap"] = result.lower_bound_s > 0 ? best.prediction.step_s / result.lower_bound_s - 1 : 0.0;
  json["search_s"] = search_s;
  json["simulated"] = result.simulated;
  json["alternatives"] = Json::array();
  for (std::size_t i = 1; i < result.ranked.size(); ++i) {
    const Candidate& other = result.ranked[i];
    json["alternatives"].push_back({{"reason", slower_than(best, other)},
                                    {"description", describe(other.plan)},
                                    {"plan", plan_object(other.plan, stage_modules(other.plan, modules))},
                                    {"predicted", to_json_object(other.prediction)}});
  }
  json["rejected"] = Json::array();
  for (const Rejection& rejection : result.rejected) {
    json["rejected"].push_back({{"reason", rejection.reason}, {"count", rejection.count}});
  }
  json["not_executable_yet"] = Json::array();
  return json;
}

PlanFile plan_file_of(const SearchResult& result, const Profile& profile) {
  const Candidate& best = result.ranked.front();
  PlanFile file = new_plan_file(best.plan, profile.layers, profile.fingerprint);
  file.predicted = predicted_step(best.prediction);
  for (std::size_t i = 1; i < std::min(kAlternatives + 1, result.ranked.size()); ++i) {
    const Candidate& other = result.ranked[i];
    file.alternatives.push_back({slower_than(best, other), other.plan});
  }
  return file;
}

int run_plan(const PlanCommand& command, const Session& session) {
  session.say("searching plans for " + command.profile);
  const auto profile = read_recording(command.profile).profile;
  if (!profile) {
    throw Error("the file holds no profile", command.profile, "give a file that mptune profile wrote");
  }
  const std::vector<DeviceSpec> devices = chosen_devices(command, *profile);
  const int batch = static_cast<int>(parse_whole(command.batch, "--batch", 1, 1 << 20, profile->batch));
  const SearchSpace space = search_space(command.choice, devices, caps_of(command, devices, *profile), batch, profile->layers);
  const std::string path = command.output.path.empty() ? model_stem(profile->model) + ".plan.json" : command.output.path;
  check_output(path, kJsonMagic, command.output.force);

  const auto started = std::chrono::steady_clock::now();
  const SearchResult result = search_plans(space, CostModel(*profile));
  const double search_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  if (result.ranked.empty()) {
    refuse_infeasible(result);
  }
  const PlanFile file = plan_file_of(result, *profile);
  save_plan_file(file, path, command.output.force);

  const Candidate& best = result.ranked.front();
  const std::string text =
      heading(session.style, fmt::format("{} of {} samples on {} devices: {} plans simulated in {}", profile->model, batch, devices.size(),
                                         result.simulated, format_seconds(search_s))) +
      ranking(result, session.style) + "\n" + render_stages(best.plan, file.modules, session.style) +
      fmt::format("\npredicted step {}, no plan under {}\nplan    {}\nmptune run {} --plan {}\n", format_seconds(best.prediction.step_s),
                  format_seconds(result.lower_bound_s), path, shell_word(profile->model), shell_word(path));
  session.result(text, plan_json(result, profile->fingerprint, search_s, layer_modules(profile->layers), path));
  return 0;
}

}  // namespace

void add_plan_command(CLI::App& program, CommandBody& chosen) {
  auto command = std::make_shared<PlanCommand>();
  CLI::App* app = program.add_subcommand("plan", "Searches plans on paper, from a file made by profile; needs no model and no device");
  app->add_option("PROFILE", command->profile, "trace file made by mptune profile")->required();
  app->add_option("--devices", command->devices, "some of the profiled devices, comma-separated; default: all")->type_name("LIST");
  app->add_option("--memory", command->memory, "cap per device: 2GiB, or cpu:0=1GiB,cpu:1=2GiB")->type_name("SIZE");
  app->add_option("--batch", command->batch, "samples per step (global batch); default: as profiled")->type_name("N");
  add_plan_options(*app, command->choice, true);
  add_output_options(*app, command->output, "plan file; default: MODEL.plan.json in the current folder");
  app->footer("Example:\n  mptune plan resnet50.sqlite --memory 2GiB -o resnet50.plan.json");
  app->callback([command, &chosen] { chosen = [command](const Session& session) { return run_plan(*command, session); }; });
}

}  // namespace mptune
