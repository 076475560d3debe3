#pragma once

#include <random>
#include <string>
#include <vector>

#include "planner/plan/plan.h"
#include "planner/schedule/schedule.h"
#include "profiler/base/index.h"
#include "profiler/trace/values/profile.h"

namespace mptune::testing {

/// What a made-up profile is like; times in seconds per sample.
struct ProfileShape {
  int layers = 4;
  int devices = 2;
  std::vector<int> sizes = {1, 8};
  double forward_s = 0.001;
  double backward_s = 0.002;
  double fixed_s = 0;  ///< of every layer at every size
  double busy = 1;     ///< busy time over alone time; 1: not measured
  double latency_s = 0;
  double bytes_per_second = 0;  ///< 0: copies take the latency only
  bool sender_copies = false;
  double action_s = 0;
  double step_s = 0;
  double optimizer_s_per_byte = 0;
  double reduce_s_per_byte = 0;
};

inline LayerCost layer_cost(const ProfileShape& shape, int samples, double factor) {
  LayerCost cost;
  cost.samples = samples;
  cost.forward = exactly((shape.fixed_s + shape.forward_s * samples) * factor);
  cost.backward = exactly((shape.fixed_s + shape.backward_s * samples) * factor);
  if (shape.busy != 1) {
    cost.forward_busy = exactly(median(cost.forward) * shape.busy);
    cost.backward_busy = exactly(median(cost.backward) * shape.busy);
  }
  cost.output_bytes = 100 * samples;
  cost.saved_activation_bytes = static_cast<std::int64_t>(300 * samples * factor);
  cost.workspace_bytes = 50 * samples;
  return cost;
}

/// The sizes of m micro-batches of one sample.
inline std::vector<int> ones(int m) {
  return std::vector<int>(as_index(m), 1);
}

/// Layer l costs factors[l] times the shape's; no factors: all alike.
inline Profile make_profile(const ProfileShape& shape, const std::vector<double>& factors = {}) {
  Profile profile;
  profile.model = "made-up";
  DeviceClass device_class;
  device_class.name = "sleep";
  device_class.action_seconds = shape.action_s;
  device_class.step_seconds = shape.step_s;
  device_class.optimizer_seconds_per_byte = shape.optimizer_s_per_byte;
  device_class.reduce_seconds_per_byte = shape.reduce_s_per_byte;
  for (int l = 0; l < shape.layers; ++l) {
    ProfileLayer layer;
    layer.name = "layer" + std::to_string(l);
    layer.parameters_bytes = 1000;
    profile.layers.push_back(layer);
    if (l > 0) profile.edges.push_back({l - 1, l, 100, 0, true});
    LayerCosts costs;
    const double factor = factors.empty() ? 1.0 : factors[as_index(l)];
    for (const int samples : shape.sizes) costs.by_samples.push_back(layer_cost(shape, samples, factor));
    device_class.layers.push_back(costs);
  }
  profile.classes.push_back(device_class);
  for (int d = 0; d < shape.devices; ++d) {
    profile.devices.push_back({"sleep:" + std::to_string(d), 0, 0});
    for (int e = 0; e < shape.devices; ++e)
      if (d != e) profile.links.push_back({d, e, shape.latency_s, shape.bytes_per_second, {}, -1, shape.sender_copies});
  }
  return profile;
}

/// The same with GPUs, twice as fast, from device `first` on.
inline Profile with_gpus(Profile profile, std::size_t first) {
  DeviceClass gpu = profile.classes.at(0);
  gpu.name = "cuda";
  gpu.reduce_seconds_per_byte /= 2;
  for (LayerCosts& layer : gpu.layers) {
    for (LayerCost& cost : layer.by_samples) {
      for (Samples* samples : {&cost.forward, &cost.backward, &cost.forward_busy, &cost.backward_busy})
        if (!samples->empty()) *samples = exactly(median(*samples) / 2);
    }
  }
  profile.classes.push_back(gpu);
  for (std::size_t d = first; d < profile.devices.size(); ++d) profile.devices[d].device_class = 1;
  return profile;
}

/// "cpu:0", "cpu:1" and so on.
inline std::vector<std::string> cpu_names(int devices) {
  std::vector<std::string> names;
  for (int d = 0; d < devices; ++d) names.push_back("cpu:" + std::to_string(d));
  return names;
}

/// The same with devices of these names; they help one another only if they are CPU devices.
inline Profile with_names(Profile profile, const std::vector<std::string>& names) {
  profile.classes.front().name = "cpu/1";
  for (std::size_t d = 0; d < names.size(); ++d) profile.devices[d].name = names[d];
  return profile;
}

inline std::vector<double> random_factors(std::mt19937& random, int layers) {
  std::vector<double> factors;
  for (int l = 0; l < layers; ++l) factors.push_back(std::uniform_real_distribution<double>(0.2, 3.0)(random));
  return factors;
}

/// A shape with every cost present, drawn at random.
inline ProfileShape random_shape(std::mt19937& random, int layers, int devices) {
  const auto draw = [&](double low, double high) { return std::uniform_real_distribution<double>(low, high)(random); };
  ProfileShape shape;
  shape.layers = layers;
  shape.devices = devices;
  shape.sizes = {1, 2, 5, 12};
  shape.fixed_s = draw(0, 0.003);
  shape.latency_s = draw(0, 0.001);
  shape.bytes_per_second = draw(1e5, 1e7);
  shape.action_s = draw(0, 0.0003);
  shape.step_s = draw(0, 0.001);
  shape.optimizer_s_per_byte = draw(0, 1e-6);
  shape.reduce_s_per_byte = draw(0, 1e-6);
  shape.sender_copies = shape.fixed_s > 0.0015;
  return shape;
}

/// Stages of equal layer counts with these replica counts, devices in order; `rows` devices are reused from the first where they run out.
inline Plan stages_of(int layers, const std::vector<int>& replicas, const std::vector<int>& sizes, int rows = 1000) {
  Plan plan;
  plan.microbatch_sizes = sizes;
  std::vector<int> cuts = equal_cuts(layers, static_cast<int>(replicas.size()));
  cuts.push_back(layers);
  int next = 0;
  for (std::size_t s = 0; s < replicas.size(); ++s) {
    Stage stage{s == 0 ? 0 : cuts[s - 1], cuts[s], {}, {}};
    for (int r = 0; r < replicas[s]; ++r) stage.devices.push_back(next++ % rows);
    plan.stages.push_back(stage);
  }
  for (int d = 0; d < std::min(next, rows); ++d) plan.devices.push_back("sleep:" + std::to_string(d));
  return plan;
}

inline Plan scheduled(Plan plan, const std::string& schedule) {
  planner::make_schedule(plan, schedule);
  return plan;
}

}  // namespace mptune::testing
