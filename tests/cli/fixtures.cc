// fixtures FOLDER: writes profile.sqlite, trace.sqlite and plan.json of a small model on two sleeping devices, many_devices.sqlite and
// many_devices_trace.sqlite on six, other_machine.* on CPU cores, and profiles of pools, of two cores (pool.sqlite) of six
// (six_cores.sqlite) and of sixteen (sixteen_cores.sqlite).
#include <string>

#include "planner/plan/file/plan_file.h"
#include "planner/search/make_plan.h"
#include "planner/simulate/simulate.h"
#include "profiler/trace/store/store.h"
#include "tests/planner/pool_profiles.h"

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

Profile small_profile(int devices) {
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
  profile.fingerprint = {.model = "sha256:toy", .input = "8:float32", .devices = {}, .libtorch = "fake", .cuda = ""};
  for (int i = 0; i < devices; ++i) {
    profile.devices.push_back({.name = "sleep:" + std::to_string(i)});
    profile.fingerprint.devices.push_back(profile.devices.back().name);
    for (int k = 0; k < devices; ++k)
      if (k != i) profile.links.push_back({i, k, 1e-5, 1e10});
  }
  return profile;
}

/// A pipeline over all devices of a profile.
Plan pipeline_over(const Profile& profile) {
  PlanOptions options;
  options.devices = profile.fingerprint.devices;
  options.batch = 8;
  options.layers = 6;
  options.microbatches = 4;
  return make_plan(options);
}

/// What measuring writes, and what recording the plan writes.
void write_measured(const Profile& profile, const Plan& plan, const std::string& measured, const std::string& recorded) {
  profiler::Recording recording;
  recording.profile = profile;
  profiler::write_recording(recording, measured, true);
  recording.trace = simulate(plan, CostModel(profile)).trace;
  recording.trace->simulated = false;
  recording.plan_json = plan_to_json(plan, {});
  recording.step_off_s = 0.05;
  recording.step_on_s = 0.0505;
  profiler::write_recording(recording, recorded, true);
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

/// As measuring a pool of cores makes it. On two cores one layer does not get faster, so that they are not best as one device.
Profile pool_profile(int cores) {
  testing::PoolShape pool;
  pool.shape = {.layers = 6, .sizes = {1, 2, 4, 8}, .fixed_s = 0.0002, .latency_s = 1e-5, .bytes_per_second = 1e10};
  pool.cores = cores;
  pool.serial = 0.3;
  const Profile layers = small_profile(2);
  Profile profile = testing::measured_pool(pool, {1, 1, 3, 1, 0.5, 0.5});
  profile.model = layers.model;
  profile.input = layers.input;
  profile.batch = layers.batch;
  profile.layers = layers.layers;
  profile.fingerprint.model = layers.fingerprint.model;
  profile.fingerprint.input = layers.fingerprint.input;
  profile.fingerprint.libtorch = layers.fingerprint.libtorch;
  return profile;
}

void write_pools(const std::string& folder) {
  profiler::Recording recording;
  recording.profile = pool_profile(2);
  profiler::write_recording(recording, folder + "/pool.sqlite", true);
  PlanOptions options;
  options.devices = {"cpu:0", "cpu:1"};
  options.batch = 8;
  options.layers = 6;
  const Plan plan = make_plan(options);
  recording.trace = simulate(plan, CostModel(planner::with_pool_devices(*recording.profile), plan)).trace;
  recording.trace->simulated = false;
  recording.plan_json = plan_to_json(plan, {});
  recording.step_off_s = recording.step_on_s = 0.05;
  profiler::write_recording(recording, folder + "/pool_trace.sqlite", true);
  recording = {};
  recording.profile = pool_profile(6);
  profiler::write_recording(recording, folder + "/six_cores.sqlite", true);
  recording.profile = pool_profile(16);
  profiler::write_recording(recording, folder + "/sixteen_cores.sqlite", true);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string folder = argv[1];
  const Profile profile = small_profile(2), many = small_profile(6);
  const Plan plan = pipeline_over(profile);
  write_measured(profile, plan, folder + "/profile.sqlite", folder + "/trace.sqlite");
  write_measured(many, pipeline_over(many), folder + "/many_devices.sqlite", folder + "/many_devices_trace.sqlite");
  PlanFile file;
  file.plan = plan;
  file.fingerprint = profile.fingerprint;
  file.created = "2026-11-21T12:00:00Z";
  save_plan_file(file, folder + "/plan.json", true);
  write_other_machine(profile, folder);
  write_pools(folder);
  return 0;
}
