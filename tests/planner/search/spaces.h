#pragma once

#include <random>
#include <string>
#include <vector>

#include "planner/search/make_plan.h"
#include "tests/planner/profiles.h"

namespace mptune::testing {

/// Of a runtime without split backward.
inline constexpr Capabilities kWholeBackwards{.split_backward = false};

/// "sleep:0", "sleep:1" and so on.
inline std::vector<std::string> names(int devices) {
  std::vector<std::string> list;
  for (int d = 0; d < devices; ++d) list.push_back("sleep:" + std::to_string(d));
  return list;
}

inline PlanOptions options_of(const std::vector<std::string>& devices, int batch, int layers, const std::string& schedule = "1f1b") {
  PlanOptions options;
  options.devices = devices;
  options.batch = batch;
  options.layers = layers;
  options.schedule = schedule;
  return options;
}

/// Like random_shape; half of them with devices that slow each other.
inline ProfileShape draw_shape(std::mt19937& random, int layers, int devices) {
  ProfileShape shape = testing::random_shape(random, layers, devices);
  if (std::uniform_int_distribution<int>(0, 1)(random) == 1) shape.busy = std::uniform_real_distribution<double>(1.0, 1.5)(random);
  return shape;
}

}  // namespace mptune::testing
