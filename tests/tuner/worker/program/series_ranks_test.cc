#include "tuner/worker/program/series_ranks.h"

#include <gtest/gtest.h>

#include "profiler/base/error.h"
#include "tests/support/thread_ranks.h"

namespace mptune::tuner {
namespace {

using testing::ThreadRanks;

std::exception_ptr error(const std::string& text) {
  return std::make_exception_ptr(Error(text, "here", "wait"));
}

TEST(SeriesRanks, OthersDoWhatTheFirstTells) {
  ThreadRanks(3).run([](const std::shared_ptr<RankGroup>& group) {
    SeriesRanks ranks(group, 5);
    EXPECT_EQ(ranks.lead(), group->rank() == 0);
    const std::vector<std::pair<SeriesWork, int>> orders{{SeriesWork::build, 4}, {SeriesWork::step, 4}, {SeriesWork::end, 0}};
    for (const auto& order : orders) {
      ranks.tell(order.first, order.second);
      if (!ranks.lead()) {
        EXPECT_EQ(ranks.told(), order);
      }
    }
  });
}

TEST(SeriesRanks, AnOutcomeOnAnyRankIsThePlans) {
  ThreadRanks(3).run([](const std::shared_ptr<RankGroup>& group) {
    SeriesRanks ranks(group, 5);
    EXPECT_TRUE(std::holds_alternative<std::monostate>(ranks.agree({})));
    // The others miss the rank whose plan failed.
    const Outcome memory = OutOfMemory{"2@cpu:0", 100, 50};
    const auto end = ranks.agree(group->rank() == 2 ? SeriesRanks::End(memory) : SeriesRanks::End(error("rank 2 has ended")));
    ASSERT_TRUE(std::holds_alternative<Outcome>(end));
    EXPECT_EQ(std::get<Outcome>(end), memory);
  });
}

TEST(SeriesRanks, AnErrorOnOneRankIsAnErrorOnAll) {
  ThreadRanks(2).run([](const std::shared_ptr<RankGroup>& group) {
    SeriesRanks ranks(group, 5);
    const auto end = ranks.agree(group->rank() == 1 ? SeriesRanks::End(error("no such file")) : SeriesRanks::End());
    ASSERT_TRUE(std::holds_alternative<std::exception_ptr>(end));
    try {
      std::rethrow_exception(std::get<std::exception_ptr>(end));
    } catch (const Error& thrown) {
      EXPECT_EQ(thrown.problem(), group->rank() == 1 ? "no such file" : "rank 1 has failed");
    }
  });
}

TEST(SeriesRanks, AloneNothingIsExchanged) {
  SeriesRanks ranks(nullptr, 5);
  EXPECT_TRUE(ranks.lead());
  ranks.tell(SeriesWork::build, 0);
  EXPECT_TRUE(std::holds_alternative<Outcome>(ranks.agree(Outcome(NonFinite{}))));
}

}  // namespace
}  // namespace mptune::tuner
