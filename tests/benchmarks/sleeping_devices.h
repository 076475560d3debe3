#pragma once

#include <random>
#include <string>
#include <utility>

#include "profiler/device/list/device_list.h"
#include "profiler/measure/measure.h"
#include "profiler/model/loading/load_model.h"

namespace mptune::testing {

/// Layers whose forward of one sample takes `least_s` to `most_s`. Costs grow with the micro-batch but not in proportion, as real ones do.
inline Profile sleep_profile(std::mt19937& random, int layers, int batch, double least_s, double most_s) {
  std::uniform_real_distribution<double> seconds(least_s, most_s);
  Profile profile;
  profile.model = "sleep";
  profile.batch = batch;
  DeviceClass sleeping{"sleep", {}, 0, 0, 0, 0};
  for (int i = 0; i < layers; ++i) {
    profile.layers.push_back({"layer" + std::to_string(i), "Sleep", {}, 1, 4, 0, false});
    const double unit = seconds(random);
    LayerCosts costs;
    for (int size : profiler::measured_sizes(batch)) {
      LayerCost cost;
      cost.samples = size;
      cost.forward = exactly(unit * (0.5 + 0.5 * size));
      cost.backward = exactly(2 * unit * (0.5 + 0.5 * size));
      cost.output_bytes = 64 << 10;
      costs.by_samples.push_back(cost);
    }
    sleeping.layers.push_back(std::move(costs));
    if (i > 0) profile.edges.push_back({i - 1, i, 4096, 0, true});
  }
  profile.classes.push_back(std::move(sleeping));
  return profile;
}

/// Sets costs of links, actions and steps in a profile of sleeping layers as measured on this machine; layer costs stay unchanged.
inline void measure_fixed(Profile& profile, int devices) {
  profiler::MeasureOptions options;
  options.devices = parse_devices("sleep:" + std::to_string(devices));
  options.batch = 1;
  options.budget_s = 1;
  const Model model = load_model("mlp", "", 0).model;
  const Profile measured = profiler::measure_profile(model, synthetic_batch(model.sample(), 1, 0), options);
  profile.devices = measured.devices;
  profile.links = measured.links;
  profile.classes[0].action_seconds = measured.classes[0].action_seconds;
  profile.classes[0].step_seconds = measured.classes[0].step_seconds;
}

}  // namespace mptune::testing
