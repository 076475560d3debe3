#pragma once

#include <string>

#include "mptune/profiler/measure/measure.h"

namespace mptune {

/// Puts into a profile of sleeping layers what links, actions and steps cost on this machine; the layers stay what they are told to be.
inline void measure_fixed(Profile& profile, int devices) {
  MeasureOptions options;
  options.devices = parse_devices("sleep:" + std::to_string(devices));
  options.batch = 1;
  options.budget_s = 1;
  const Model model = load_model("mlp", "", 0);
  const Profile measured = measure_profile(model, synthetic_batch(model.sample(), 1, 0), options);
  profile.devices = measured.devices;
  profile.links = measured.links;
  profile.classes[0].action_seconds = measured.classes[0].action_seconds;
  profile.classes[0].step_seconds = measured.classes[0].step_seconds;
}

}  // namespace mptune
