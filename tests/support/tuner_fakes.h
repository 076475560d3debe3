#pragma once

#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "planner/search/make_plan.h"
#include "planner/search/space/search_space.h"
#include "profiler/trace/values/profile.h"
#include "tuner/runtime/graph/capabilities.h"
#include "tuner/trial/trial.h"

namespace mptune::testing {

/// A temporary folder, deleted with this object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "mptune_test_XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// A fake machine with a chain of `layers` layers. Layer i takes base_s * (1 + 0.5 sin i) per sample forward, and twice that backward.
struct FakeMachine {
  int layers = 8;
  int devices = 2;
  int batch = 16;
  double base_s = 0.001;
  double fixed_s = 0.0005;          ///< per layer and call, for any size
  double whole_machine_gain = 1.3;  ///< speed of all cores over one
  std::int64_t saved_bytes_per_sample = 1 << 20;
  std::int64_t parameters_bytes = 4 << 20;
  double reduce_seconds_per_byte = 1e-9;
};

inline LayerCost fake_cost(const FakeMachine& machine, int layer, int samples, double speed) {
  LayerCost cost;
  const double forward = (machine.fixed_s + machine.base_s * samples * (1 + 0.5 * std::sin(layer))) / speed;
  cost.samples = samples;
  cost.forward = exactly(forward);
  cost.backward = exactly(2 * forward);
  cost.output_bytes = 4096L * samples;
  cost.saved_activation_bytes = machine.saved_bytes_per_sample * samples;
  return cost;
}

inline Profile fake_profile(const FakeMachine& machine) {
  Profile profile;
  profile.model = "fake";
  profile.input = "8";
  profile.batch = machine.batch;
  for (int i = 0; i < machine.layers; ++i) {
    ProfileLayer layer;
    layer.name = "layer" + std::to_string(i);
    layer.kind = "Fake";
    layer.parameters = machine.parameters_bytes / 4;
    layer.parameters_bytes = machine.parameters_bytes;
    profile.layers.push_back(layer);
    if (i > 0) profile.edges.push_back({i - 1, i, 4096, 0, true});
  }
  for (const auto& [name, speed] : {std::pair<std::string, double>{"cpu/1", 1.0}, {"cpu/all", machine.whole_machine_gain}}) {
    DeviceClass one;
    one.name = name;
    for (int i = 0; i < machine.layers; ++i) {
      LayerCosts costs;
      for (int samples = 1; samples <= machine.batch; samples *= 2) costs.by_samples.push_back(fake_cost(machine, i, samples, speed));
      one.layers.push_back(costs);
    }
    one.action_seconds = 2e-5;
    one.step_seconds = 1e-4;
    one.optimizer_seconds_per_byte = 1e-10;
    one.reduce_seconds_per_byte = machine.reduce_seconds_per_byte;
    profile.classes.push_back(one);
  }
  for (int d = 0; d < machine.devices; ++d) profile.devices.push_back({"cpu:" + std::to_string(d), 0, 0});
  profile.devices.push_back({"cpu:0-" + std::to_string(machine.devices - 1), 1, 0});
  for (int a = 0; a < machine.devices; ++a) {
    for (int b = 0; b < machine.devices; ++b)
      if (a != b) profile.links.push_back({a, b, 1e-5, 5e9});
  }
  profile.fingerprint.model = "sha256:fake";
  return profile;
}

inline SearchSpace fake_space(const FakeMachine& machine) {
  SearchSpace space;
  for (int d = 0; d < machine.devices; ++d) space.devices.push_back("cpu:" + std::to_string(d));
  if (machine.devices > 1) space.whole_machine = {"cpu:0-" + std::to_string(machine.devices - 1)};
  space.batch = machine.batch;
  space.capabilities = tuner::kRuntime;
  space.look_beyond = false;
  return space;
}

/// Pipeline of two stages cut before `cut`, or one device for cut 0.
inline Plan fake_plan(int cut, int microbatches, const std::string& schedule = "1f1b", int layers = 8, int batch = 16) {
  PlanOptions options;
  options.devices = cut == 0 ? std::vector<std::string>{"cpu:0"} : std::vector<std::string>{"cpu:0", "cpu:1"};
  options.batch = batch;
  options.layers = layers;
  options.microbatches = microbatches;
  options.schedule = cut == 0 ? "gpipe" : schedule;
  if (cut > 0) options.cuts = {cut};
  options.stages = cut == 0 ? 1 : 2;
  return make_plan(options);
}

/// Data parallel over two devices: one stage of two replicas, two micro-batches of the same batch.
inline Plan fake_data_parallel_plan() {
  PlanOptions options;
  options.devices = {"cpu:0", "cpu:1"};
  options.batch = 16;
  options.layers = 8;
  options.stages = 1;
  options.replicas = {2};
  options.microbatches = 2;
  options.schedule = "gpipe";
  return make_plan(options);
}

/// Runs a simulated runner, and advances a clock by the time that its series would have taken: until its end where that cut it short.
class ClockedRunner : public tuner::TrialRunner {
 public:
  ClockedRunner(tuner::TrialRunner& inner, double& now, double start_s) : inner_(inner), now_(now), start_s_(start_s) {}

  [[nodiscard]] std::vector<tuner::Trial> run(const tuner::Series& series) override {
    if (before) before(series);
    ++runs;
    std::vector<tuner::Trial> trials = inner_.run(series);
    if (after) after(series, trials);
    double took = start_s_;
    for (const tuner::Trial& trial : trials) {
      if (std::holds_alternative<tuner::Interrupted>(trial.outcome)) took = std::max(0.0, series.ends_s);
    }
    for (const tuner::Trial& trial : trials) {
      const auto* measured = std::get_if<tuner::Measured>(&trial.outcome);
      if (measured == nullptr || measured->step_s.empty()) continue;
      for (const Sample& sample : measured->step_s.values) took = std::max(took, sample.started + sample.value);
    }
    now_ += took;
    longest_s = std::max(longest_s, took);
    series_run.push_back(series);
    return trials;
  }

  std::function<void(const tuner::Series&)> before;
  std::function<void(const tuner::Series&, std::vector<tuner::Trial>&)> after;  ///< may change the outcomes
  int runs = 0;
  double longest_s = 0;
  std::vector<tuner::Series> series_run;

 private:
  tuner::TrialRunner& inner_;
  double& now_;
  double start_s_;
};

}  // namespace mptune::testing
