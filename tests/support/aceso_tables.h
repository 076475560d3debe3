#pragma once

#include <string>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/published/aceso.h"
#include "profiler/trace/formats/bandwidth_table.h"
#include "profiler/trace/formats/operator_tables.h"
#include "tests/support/files.h"

namespace mptune::testing {

inline std::vector<LinkPoint> published_links() {
  profiler::TextInput input = profiler::open_text(shared_data("aceso/p2p_intra_node.csv"));
  return profiler::read_bandwidth_table(input);
}

inline constexpr int kPublishedLayers = 24;

/// The published GPT models, "gpt_1_3B" or "gpt_350M", on `devices` devices with 28,000 MB and batches of 1024, as in Aceso's evaluation.
/// No tables if the data is absent.
inline planner::AcesoProblem published_problem(const std::string& model, int devices) {
  planner::AcesoProblem problem;
  const std::string folder = shared_data("aceso");
  if (folder.empty()) return problem;
  for (const auto& [samples, path] : profiler::operator_table_files(folder + "/" + model)) {
    profiler::TextInput input = profiler::open_text(path);
    problem.tables.push_back(planner::aceso_table(samples, profiler::read_operator_table(input), kPublishedLayers));
  }
  problem.links = published_links();
  problem.devices = devices;
  problem.batch = 1024;
  problem.memory_bytes = std::int64_t{28000} << 20;
  return problem;
}

/// The same as a profile with devices "device:0", "device:1", ..., linked all to all. Requires: the data exists.
inline Profile published_profile(const std::string& model, int devices) {
  Profile profile = profiler::read_operator_tables(shared_data("aceso") + "/" + model, {.layers = kPublishedLayers});
  const std::vector<LinkPoint> links = published_links();
  for (int d = 0; d < devices; ++d) {
    profile.devices.push_back({"device:" + std::to_string(d), 0, 0});
    for (int e = 0; e < devices; ++e)
      if (d != e) profile.links.push_back({.source = d, .destination = e, .curve = links});
  }
  profile.batch = 1024;
  return profile;
}

/// Time of forward and backward of one micro-batch through all layers, on the profile's first device [s].
inline double turn_seconds(const CostModel& cost, int samples) {
  double seconds = 0;
  for (int layer = 0; layer < cost.layers(); ++layer) {
    const LayerTimes times = cost.layer(0, layer, samples);
    seconds += times.forward_s + times.backward_s;
  }
  return seconds;
}

}  // namespace mptune::testing
