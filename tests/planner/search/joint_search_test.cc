#include "mptune/planner/search/joint_search.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <tuple>

#include "mptune/planner/schedule/schedule.h"
#include "mptune/tests/planner/search/spaces.h"

namespace mptune {
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
  int added = 0;
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE(round);
    const int devices = std::uniform_int_distribution<int>(2, 3)(random);
    const CostModel cost(test::make_profile(test::draw_shape(random, 8, devices), test::random_factors(random, 8)));
    SearchSpace space;
    space.devices = test::names(devices);
    space.batch = 8;
    space.keep = 12;
    std::vector<std::int64_t> caps(static_cast<std::size_t>(devices), 0);
    if (round % 2 == 1) {
      JointSearch free(space, cost, caps, 1);
      free.one_stage();
      free.pipelines();
      const std::vector<std::int64_t>& peaks = free.evaluator().ranking().fastest()->prediction.peak_bytes;
      caps.assign(caps.size(), *std::ranges::max_element(peaks) * 9 / 10);
    }
    JointSearch search(space, cost, caps, space.keep);
    search.one_stage();
    search.pipelines();
    const Proofs before = proofs_of(search);
    const std::size_t ranked = search.evaluator().ranking().ranked().size();
    search.alternatives();
    EXPECT_EQ(proofs_of(search), before);
    added += search.evaluator().ranking().ranked().size() > ranked ? 1 : 0;
  }
  EXPECT_GT(added, 0);
}

}  // namespace
}  // namespace mptune
