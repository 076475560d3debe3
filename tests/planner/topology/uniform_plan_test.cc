#include "planner/topology/uniform_plan.h"

#include <gtest/gtest.h>

#include "planner/cost/all_reduce.h"
#include "planner/schedule/schedule.h"
#include "planner/simulate/operations.h"
#include "planner/simulate/simulate.h"
#include "planner/topology/topology_profile.h"
#include "tests/planner/profiles.h"
#include "tests/planner/topology/topologies.h"

namespace mptune::testing {
namespace {

using planner::placed;
using planner::Placement;

using Devices = std::vector<std::vector<int>>;

TEST(UniformPlan, PipelinesOrReplicasAreInOneHost) {
  const planner::Topology topology = make_topology(2, 4);
  EXPECT_EQ(placed({2, 3, 1, Placement::stages_near}, topology), (Devices{{0, 1}, {2, 3}, {4, 5}}));
  EXPECT_EQ(placed({2, 3, 1, Placement::replicas_near}, topology), (Devices{{0, 4}, {1, 5}, {2, 6}}));
  EXPECT_EQ(placed({3, 2, 1, Placement::stages_near}, topology), (Devices{{0, 1, 2}, {4, 5, 6}}));
}

TEST(UniformPlan, HostsAreFilledWhereThereIsNoOtherRoom) {
  EXPECT_EQ(placed({3, 2, 1, Placement::stages_near}, make_topology(3, 2)), (Devices{{0, 1, 2}, {3, 4, 5}}));
}

Plan pipeline_of(int stages, int microbatches, int layers, const std::string& schedule) {
  Plan plan;
  for (int s = 0; s < stages; ++s) {
    plan.devices.push_back("d" + std::to_string(s));
    plan.stages.push_back({s * layers / stages, (s + 1) * layers / stages, {s}, {}});
  }
  plan.microbatch_sizes.assign(as_index(microbatches), 2);
  planner::make_schedule(plan, schedule);
  return plan;
}

std::vector<std::string> named(const Profile& profile) {
  std::vector<std::string> names;
  for (const ProfileDevice& device : profile.devices) names.push_back(device.name);
  return names;
}

TEST(UniformPlan, IsAValidPlanWithRowsOfItsSchedule) {
  const Plan pipeline = pipeline_of(2, 3, 4, "1f1b");
  const Plan plan = planner::replicated(pipeline, 2, {"0@sleep:0", "1@sleep:0", "0@sleep:1", "1@sleep:1"});
  validate(plan, 4, "plan");
  planner::validate_schedule(plan, "plan");
  Plan made = plan;
  planner::make_schedule(made, "1f1b");
  EXPECT_EQ(made.actions, plan.actions);
  EXPECT_EQ(plan.global_batch_size(), 12);
}

TEST(UniformPlan, EveryReplicaTakesAsLongAsOne) {
  const Profile profile = make_profile({.layers = 4, .devices = 1, .optimizer_s_per_byte = 1e-8});
  const planner::Topology topology = make_topology(3, 2);
  const Profile all = planner::on_topology(profile, topology, "t");
  const CostModel cost(all);
  Plan pipeline = pipeline_of(2, 3, 4, "1f1b");
  pipeline.devices = {"0@sleep:0", "0@sleep:1"};
  const Plan plan = planner::replicated(pipeline, 3, {"0@sleep:0", "1@sleep:0", "2@sleep:0", "0@sleep:1", "1@sleep:1", "2@sleep:1"});
  const planner::ReplicaGroup group{.replicas = 3, .hosts = 3, .per_host = 1, .within = {}, .between = topology.between, .shared = false};
  const double sum_s = planner::all_reduce_costs(group, 2000).least_s();
  EXPECT_NEAR(predict(plan, cost).step_s, predict(pipeline, cost).step_s + sum_s, 2e-9);
  EXPECT_EQ(cost.peak_bytes(plan)[2], cost.peak_bytes(pipeline)[0]);
}

TEST(UniformPlan, CopiesOfAHostQueueOnItsCard) {
  Profile profile = make_profile({.layers = 2, .devices = 1});
  for (LayerEdge& edge : profile.edges) edge.bytes_per_sample = 1'000'000;
  const auto step_of = [&](bool shared) {
    const CostModel cost(planner::on_topology(profile, make_topology(2, 2, shared), "t"));
    Plan pipeline = pipeline_of(2, 2, 2, "gpipe");
    const Plan plan = planner::replicated(pipeline, 2, {"0@sleep:0", "0@sleep:1", "1@sleep:0", "1@sleep:1"});
    return predict(plan, cost).step_s;
  };
  // Both pipelines send 2 MB at the same time, so the second waits 110 us. From then on they are apart.
  EXPECT_NEAR(step_of(true) - step_of(false), 110e-6, 1e-9);
}

TEST(UniformPlan, BothPlacementsOfOnePipelineAreAlike) {
  EXPECT_EQ(placed({4, 1, 1, Placement::stages_near}, make_topology(2, 2)),
            placed({4, 1, 1, Placement::replicas_near}, make_topology(2, 2)));
  EXPECT_EQ(named(planner::on_topology(make_profile({}), make_topology(1, 2), "t")), (std::vector<std::string>{"0@sleep:0", "0@sleep:1"}));
}

}  // namespace
}  // namespace mptune::testing
