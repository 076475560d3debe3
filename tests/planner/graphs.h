#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "profiler/base/index.h"
#include "tests/planner/profiles.h"

namespace mptune::testing {

/// The profile with random edges in place of those of its chain: most layers read the one before them, some an earlier one, some none. Some
/// tensors have several readers. The last layer reads whatever nobody else does.
inline Profile with_random_edges(Profile profile, std::mt19937& random) {
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  const int layers = static_cast<int>(profile.layers.size());
  std::vector<bool> read(as_index(layers), false);
  profile.edges.clear();
  const auto add = [&](int from, int to) {
    const auto same = std::ranges::find(profile.edges, from, &LayerEdge::from);
    const auto size =
        same != profile.edges.end() && draw(0, 1) == 0 ? same->bytes_per_sample : 100 * layers * draw(1, 9) + from * layers + to;
    profile.edges.push_back({from, to, size, 0, draw(0, 4) > 0, draw(0, 3) == 0});
    read[as_index(from)] = true;
  };
  for (int to = 1; to < layers; ++to) {
    if (draw(0, 3) > 0) add(to - 1, to);
    if (to > 1 && draw(0, 2) == 0) add(draw(0, to - 2), to);
  }
  for (int from = 0; from + 1 < layers; ++from)
    if (!read[as_index(from)]) add(from, layers - 1);
  return profile;
}

/// Two branches of `length` layers each, which read inputs of the model, and a layer that reads the ends of both.
inline Profile two_branches(const ProfileShape& shape, int length) {
  ProfileShape all = shape;
  all.layers = 2 * length + 1;
  Profile profile = make_profile(all);
  profile.edges[as_index(length) - 1] = {length - 1, 2 * length, 100, 0, true};
  return profile;
}

}  // namespace mptune::testing
