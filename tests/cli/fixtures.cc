// fixtures FOLDER: writes profile.sqlite, trace.sqlite and plan.json of a small model on two sleeping devices, and other_machine.* on CPU
// cores.
#include <string>

#include "planner/plan_file.h"
#include "planner/search/search.h"
#include "planner/simulate/simulate.h"
#include "profiler/store/store.h"

namespace {

using namespace mptune;

LayerCost cost_of(int samples, double scale) {
  LayerCost cost;
  cost.samples = samples;
  cost.forward = exactly(scale * (0.2e-3 + 1e-3 * samples));
  cost.backward = exactly(2 * scale * (0.2e-3 + 1e-3 * samples));
  cost.output_bytes = 1000 * samples;
  cost.saved_activation_bytes = 4000 * samples;
  cost.workspace_bytes = 100;
  return cost;
}

Profile small_profile() {
  Profile profile;
  profile.model = "toy:layers=6";
  profile.input = "8:float32";
  profile.batch = 8;
  DeviceClass sleepers{.name = "sleep", .layers = {}};
  for (int i = 0; i < 6; ++i) {
    const std::string name = "block" + std::to_string(i);
    profile.layers.push_back({.name = name, .kind = "Linear", .modules = {"net." + name}, .parameters = 100, .parameters_bytes = 400});
    sleepers.layers.push_back({{cost_of(1, 1 + 0.1 * i), cost_of(2, 1 + 0.1 * i), cost_of(4, 1 + 0.1 * i), cost_of(8, 1 + 0.1 * i)}});
    if (i > 0) profile.edges.push_back({.from = i - 1, .to = i, .bytes_per_sample = 1000});
  }
  profile.classes = {sleepers};
  profile.devices = {{.name = "sleep:0"}, {.name = "sleep:1"}};
  profile.links = {{0, 1, 1e-5, 1e10}, {1, 0, 1e-5, 1e10}};
  profile.fingerprint = {.model = "sha256:toy", .input = "8:float32", .devices = {"sleep:0", "sleep:1"}, .libtorch = "fake", .cuda = ""};
  return profile;
}

/// As if measured on a larger machine: two of its cores, and both as one device, which the plan uses.
void write_other_machine(Profile profile, const std::string& folder) {
  profile.classes.push_back(profile.classes.front());
  profile.devices = {{.name = "cpu:1000"}, {.name = "cpu:1001"}, {.name = "cpu:1000-1001", .device_class = 1}};
  profile.fingerprint.devices = {"cpu:1000", "cpu:1001"};
  profiler::Recording recording;
  recording.profile = profile;
  profiler::write_recording(recording, folder + "/other_machine.sqlite", true);
  PlanOptions options;
  options.devices = {"cpu:1000-1001"};
  options.batch = 8;
  options.layers = 6;
  options.microbatches = 1;
  PlanFile file;
  file.plan = make_plan(options);
  file.fingerprint = profile.fingerprint;
  file.created = "2026-11-21T12:00:00Z";
  save_plan_file(file, folder + "/other_machine.plan.json", true);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string folder = argv[1];
  const Profile profile = small_profile();
  PlanOptions options;
  options.devices = {"sleep:0", "sleep:1"};
  options.batch = 8;
  options.layers = 6;
  options.microbatches = 4;
  const Plan plan = make_plan(options);
  profiler::Recording recording;
  recording.profile = profile;
  profiler::write_recording(recording, folder + "/profile.sqlite", true);
  recording.trace = simulate(plan, CostModel(profile)).trace;
  recording.trace->simulated = false;
  recording.plan_json = plan_to_json(plan, {});
  recording.step_off_s = 0.05;
  recording.step_on_s = 0.0505;
  profiler::write_recording(recording, folder + "/trace.sqlite", true);
  PlanFile file;
  file.plan = plan;
  file.fingerprint = profile.fingerprint;
  file.created = "2026-11-21T12:00:00Z";
  save_plan_file(file, folder + "/plan.json", true);
  write_other_machine(profile, folder);
  return 0;
}
