#include "planner/search/joint/joint_search.h"
#include "profiler/base/index.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <tuple>

#include "planner/schedule/schedule.h"
#include "tests/planner/search/spaces.h"

namespace mptune::planner {
namespace {

using Proofs = std::map<std::tuple<std::string, std::vector<std::vector<int>>, std::vector<int>>, FamilyProof>;

Proofs proofs_of(const JointSearch& search) {
  Proofs proofs;
  for (const FamilyState& state : search.families())
    proofs[{state.family.schedule, state.family.devices, state.family.sizes}] = state.proof;
  return proofs;
}

// With caps, plans are listed several times over: all that the search notes of a family is in use.
TEST(JointSearch, AlternativesLeaveTheProofsAlone) {
  std::mt19937 random(7);
  int looked_further = 0;
  for (int round = 0; round < 6; ++round) {
    SCOPED_TRACE(round);
    const int devices = std::uniform_int_distribution<int>(2, 3)(random);
    const CostModel cost(testing::make_profile(testing::draw_shape(random, 8, devices), testing::random_factors(random, 8)));
    SearchSpace space;
    space.devices = testing::names(devices);
    space.batch = 8;
    space.keep = 12;
    space.schedules = {"1f1b", "gpipe", "zb1p"};
    space.microbatch_counts = {2, 4};
    std::vector<std::int64_t> caps(as_index(devices), 0);
    if (round % 2 == 1) {
      RatedFamilies rated;
      JointSearch free(space, cost, caps, 1, rated);
      free.one_stage();
      free.pipelines();
      const std::vector<std::int64_t>& peaks = free.evaluator().ranking().fastest()->prediction.peak_bytes;
      caps.assign(caps.size(), *std::ranges::max_element(peaks) * 9 / 10);
    }
    RatedFamilies rated;
    JointSearch search(space, cost, caps, space.keep, rated);
    search.one_stage();
    search.pipelines();
    const Proofs before = proofs_of(search);
    const std::int64_t simulated = search.evaluator().result().simulated;
    search.alternatives();
    EXPECT_EQ(proofs_of(search), before);
    looked_further += search.evaluator().result().simulated > simulated ? 1 : 0;
  }
  EXPECT_EQ(looked_further, 6) << "alternatives() searched nothing";
}

}  // namespace
}  // namespace mptune::planner
