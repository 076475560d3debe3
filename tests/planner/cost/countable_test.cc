#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "planner/cost/cost_model.h"
#include "profiler/base/error.h"
#include "profiler/trace/values/profile_limits.h"
#include "tests/planner/profiles.h"

namespace mptune::planner {
namespace {

using testing::make_profile;

std::string refusal_of(const Profile& profile, std::int64_t samples) {
  try {
    CostModel(profile).require_countable(samples);
  } catch (const Error& error) {
    return error.problem();
  }
  return "";
}

// What the store lets pass, at its most, in one place of a profile that is like others elsewhere.
Profile with(const std::function<void(Profile&)>& change) {
  Profile profile = make_profile({.layers = 6, .devices = 2, .latency_s = 1e-5, .bytes_per_second = 1e12});
  change(profile);
  return profile;
}

LayerCost& cost_of(Profile& profile, std::size_t size) {
  return profile.classes[0].layers[2].by_samples[size];
}

TEST(Countable, StepsOfAnyModelAre) {
  // A layer of a model of 400 billion parameters on 128k tokens, which a device of today just holds, times 126.
  Profile profile = make_profile({.layers = 126, .devices = 8, .sizes = {1}, .latency_s = 1e-5, .bytes_per_second = 1e9});
  for (LayerCosts& layer : profile.classes[0].layers) {
    layer.by_samples[0].forward = exactly(5);
    layer.by_samples[0].backward = exactly(15);
    layer.by_samples[0].saved_activation_bytes = std::int64_t{70} << 30;
  }
  for (LayerEdge& edge : profile.edges) edge.bytes_per_sample = std::int64_t{4} << 30;
  EXPECT_EQ(refusal_of(profile, 4096), "");
  EXPECT_NE(refusal_of(profile, 1 << 20), "");
}

TEST(Countable, EveryPartOfAStepIsSeen) {
  const double hour = profiler::kMostProfileSeconds;
  const auto bytes = static_cast<std::int64_t>(profiler::kMostProfileBytes);
  const std::pair<const char*, std::function<void(Profile&)>> seconds[] = {
      {"forward", [&](Profile& p) { cost_of(p, 0).forward = exactly(hour); }},
      {"backward", [&](Profile& p) { cost_of(p, 0).backward = exactly(hour); }},
      {"busy", [&](Profile& p) { cost_of(p, 0).backward_busy = exactly(hour); }},
      {"slope", [&](Profile& p) { cost_of(p, 1).forward = exactly(10 * hour); }},
      {"falling", [&](Profile& p) { (cost_of(p, 0).samples = 7, cost_of(p, 0).forward = exactly(hour)); }},
      {"action", [&](Profile& p) { p.classes[0].action_seconds = hour; }},
      {"optimizer", [&](Profile& p) { (p.classes[0].optimizer_seconds_per_byte = hour, p.layers[0].parameters_bytes = 1 << 20); }},
      {"latency", [&](Profile& p) { p.links[0].latency_s = hour; }},
      {"speed", [&](Profile& p) { p.links[0].bytes_per_second = 1e-300; }},
      {"curve",
       [&](Profile& p) {
         p.links[0].curve = {{1, 0}, {2, hour}};
       }},
  };
  for (const auto& [part, change] : seconds) EXPECT_NE(refusal_of(with(change), 1 << 20).find("10^9 seconds"), std::string::npos) << part;
  const std::pair<const char*, std::function<void(Profile&)>> sizes[] = {
      {"kept", [&](Profile& p) { cost_of(p, 0).saved_activation_bytes = bytes; }},
      {"workspace", [&](Profile& p) { cost_of(p, 1).workspace_bytes = 8 * bytes; }},
      {"edge", [&](Profile& p) { p.edges[0].bytes_per_sample = bytes; }},
      {"fixed", [&](Profile& p) { p.edges[0].fixed_bytes = bytes; }},
      {"statistics", [&](Profile& p) { (p.layers[1].buffers_bytes = bytes, p.layers[1].batch_statistics = true); }},
      {"parameters", [&](Profile& p) { (p.layers[0].parameters_bytes = 1000 * bytes, p.optimizer_state_factor = 1000); }},
      {"reserve", [&](Profile& p) { (p.classes[0].allocator_reserve = 100, cost_of(p, 0).saved_activation_bytes = bytes / 100); }},
  };
  for (const auto& [part, change] : sizes) EXPECT_NE(refusal_of(with(change), 1 << 20).find("2^60 bytes"), std::string::npos) << part;
  EXPECT_EQ(refusal_of(with([](Profile&) {}), std::numeric_limits<int>::max()), "");
}

}  // namespace
}  // namespace mptune::planner
