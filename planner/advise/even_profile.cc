#include "planner/advise/even_profile.h"

#include <set>

#include "profiler/base/index.h"

namespace mptune::planner {

Profile even_profile(const Plan& plan, double forward_s) {
  Profile profile;
  const std::set<int> sizes(plan.microbatch_sizes.begin(), plan.microbatch_sizes.end());
  DeviceClass& device_class = profile.classes.emplace_back();
  for (std::size_t stage = 0; stage < plan.stages.size(); ++stage) {
    profile.layers.emplace_back();
    if (stage > 0) profile.edges.push_back({static_cast<int>(stage) - 1, static_cast<int>(stage), 0, 0, true});
    LayerCosts& costs = device_class.layers.emplace_back();
    for (const int samples : sizes) {
      LayerCost& cost = costs.by_samples.emplace_back();
      cost.samples = samples;
      cost.forward = exactly(forward_s * samples);
      cost.backward = exactly(2 * forward_s * samples);
      cost.backward_input = exactly(forward_s * samples);
      cost.backward_weight = exactly(forward_s * samples);
    }
  }
  for (int from = 0; from < static_cast<int>(plan.devices.size()); ++from) {
    profile.devices.push_back({plan.devices[as_index(from)], 0, 0});
    for (int to = 0; to < static_cast<int>(plan.devices.size()); ++to)
      if (from != to) profile.links.push_back({from, to, 0, 0});
  }
  return profile;
}

Plan even_plan(Plan plan) {
  for (int s = 0; s < plan.num_stages(); ++s) {
    Stage& stage = plan.stages[as_index(s)];
    stage = {.first_layer = s, .last_layer = s + 1, .devices = stage.devices, .recompute = {}};
  }
  return plan;
}

}  // namespace mptune::planner
