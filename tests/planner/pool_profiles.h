#pragma once

#include <algorithm>
#include <random>
#include <string>

#include "planner/cost/pool_costs.h"
#include "tests/planner/profiles.h"

namespace mptune::testing {

/// What a made-up pool of cores is like: of the time of a layer, `serial` does not depend on the cores.
struct PoolShape {
  ProfileShape shape;
  int cores = 4;
  double serial = 0.1;
};

/// A profile as measuring the pool "cpu:0-(cores - 1)/auto" makes it. `factors` as of make_profile().
inline Profile measured_pool(const PoolShape& pool, const std::vector<double>& factors = {}) {
  ProfileShape one = pool.shape;
  one.devices = 1;
  Profile profile = make_profile(one, factors);
  const DeviceClass single = profile.classes.front();
  const DevicePool named = parse_pool("cpu:0-" + std::to_string(pool.cores - 1) + "/auto");
  profile.classes.clear();
  profile.devices.clear();
  const std::vector<int> counts = measured_core_counts(pool.cores);
  for (const int cores : counts) {
    DeviceClass more = single;
    more.name = "cpu/" + std::to_string(cores);
    const double factor = pool.serial + (1 - pool.serial) / cores;
    for (LayerCosts& layer : more.layers)
      for (LayerCost& cost : layer.by_samples)
        for (Samples* samples : {&cost.forward, &cost.backward, &cost.forward_busy, &cost.backward_busy}) {
          if (samples->empty()) continue;
          *samples = exactly(median(*samples) * factor);
          const bool busy = samples == &cost.forward_busy || samples == &cost.backward_busy;
          if (busy && cores == pool.cores) samples->values.clear();
        }
    profile.classes.push_back(more);
  }
  for (const std::string& name : measured_devices(named)) {
    const auto cores = static_cast<int>(parse_device(name).cores.size());
    profile.devices.push_back({name, static_cast<int>(std::ranges::find(counts, cores) - counts.begin()), 0});
  }
  profile.links.clear();
  for (int a = 0; a < static_cast<int>(profile.devices.size()); ++a)
    for (int b = 0; b < static_cast<int>(profile.devices.size()); ++b)
      if (!overlap(parse_device(profile.devices[as_index(a)].name), parse_device(profile.devices[as_index(b)].name)))
        profile.links.push_back({a, b, one.latency_s, one.bytes_per_second, {}, -1, one.sender_copies});
  profile.fingerprint.devices = {named.name()};
  return profile;
}

}  // namespace mptune::testing
