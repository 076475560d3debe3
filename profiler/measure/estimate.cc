#include "profiler/measure/estimate.h"

#include <ATen/ATen.h>

#include <string>
#include <utility>
#include <vector>

#include "profiler/base/error.h"
#include "profiler/device/estimated_device.h"
#include "profiler/device/operator_cost.h"
#include "profiler/measure/describe_model.h"
#include "profiler/measure/layer_costs.h"
#include "profiler/measure/measure.h"

namespace mptune::profiler {

namespace {

/// Measures layers on the device's own clock, which gives the same times in every pass.
MeasuredClass estimated_layers(const Model& model, const Batch& batch, int samples, const Hardware& hardware) {
  std::vector<Bench> benches;
  benches.emplace_back(make_estimated_device(hardware), model);
  MeasuredLayers layers = measure_layers(benches, batch, measured_sizes(samples, model.samples()), model.size(), {}, [](double) {});
  MeasuredClass measured;
  measured.costs.name = hardware.name;
  measured.costs.layers = std::move(layers.costs);
  measured.returned = std::move(layers.returned);
  measured.unsplit = std::move(layers.unsplit);
  measured.written_buffers = benches.front().written_buffers();
  return measured;
}

/// Throws Error in the words of an estimate.
MeasuredClass layers_or_why_not(const Model& model, const Batch& batch, int samples, const Hardware& hardware) {
  try {
    return estimated_layers(model, batch, samples, hardware);
  } catch (const Error& error) {
    throw Error("an estimate knows shapes alone, with which " + error.problem(), model.name(),
                "leave --estimate out to measure on a device of this machine; if that fails too, check --input and --batch");
  }
}

/// Adds the devices of one host, with links between all of them.
void add_host(const Hardware& hardware, Profile& profile) {
  for (int device = 0; device < hardware.devices; ++device)
    profile.devices.push_back({hardware.name + ":" + std::to_string(device), 0, hardware.memory_bytes});
  for (int source = 0; source < hardware.devices; ++source)
    for (int destination = 0; destination < hardware.devices; ++destination)
      if (source != destination) profile.links.push_back({source, destination, hardware.link_latency_s, hardware.link_bytes_per_second});
}

}  // namespace

Profile estimate_profile(const Model& model, const Batch& batch, int samples, const OptimizerChoice& optimizer, const Hardware& hardware) {
  Profile profile = describe_model(model, batch, samples, optimizer);
  if (profile.precision != Precision::float32)
    throw Error("an estimate can't follow autocast", "--precision",
                "convert the model's parameters, as by model.bfloat16(), and export it");
  MeasuredClass measured = layers_or_why_not(model, batch, samples, hardware);
  const double bytes_per_second = reached_bytes_per_second(hardware);
  // An update reads gradient, parameter and state, and writes the latter two; a sum reads two gradients and writes one.
  measured.costs.optimizer_seconds_per_byte = (3 + 2 * profile.optimizer_state_factor) / bytes_per_second;
  measured.costs.reduce_seconds_per_byte = 3 / bytes_per_second;
  describe_flow(model, measured, profile);
  profile.classes.push_back(std::move(measured.costs));
  add_host(hardware, profile);
  profile.estimated = hardware.name;
  for (const ProfileDevice& device : profile.devices) profile.fingerprint.devices.push_back(device.name);
  return profile;
}

}  // namespace mptune::profiler
