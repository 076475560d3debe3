#include "profiler/trace/ranks/meetings.h"

#include <gmock/gmock.h>

#include "tests/profiler/trace/ranks/recorded_job.h"

namespace mptune::profiler {
namespace {

using ::testing::ElementsAre;
using testing::RecordedRank;

Meetings met(const std::vector<RecordedRank>& ranks) {
  std::vector<RankRecording> recordings;
  for (const RecordedRank& rank : ranks) recordings.push_back(rank.recording());
  return find_meetings(recordings);
}

TEST(FindMeetings, CollectivesMeetByTheirNumber) {
  // The recordings begin at other communications.
  const Meetings meetings =
      met({RecordedRank(0).collective(0, 10, 4).collective(20, 30, 5), RecordedRank(1).collective(0, 10, 5).collective(20, 30, 6)});
  ASSERT_EQ(meetings.all.size(), 1U);
  EXPECT_THAT(meetings.all[0].members, ElementsAre(Member{0, 1}, Member{1, 0}));
  EXPECT_TRUE(meetings.all[0].symmetric);
  EXPECT_THAT(meetings.unmatched, ElementsAre(1, 1));
  EXPECT_THAT(meetings.alone, ElementsAre(0, 0));
}

TEST(FindMeetings, WithoutNumbersByTheirPlaceInTheStep) {
  const Meetings meetings =
      met({RecordedRank(0).step(0, 0, 100).step(1, 100, 200).collective(10, 20, -1).collective(110, 120, -1).collective(150, 160, -1),
           RecordedRank(1).step(1, 100, 200).collective(110, 120, -1).collective(150, 160, -1)});
  ASSERT_EQ(meetings.all.size(), 2U);
  EXPECT_THAT(meetings.all[0].members, ElementsAre(Member{0, 1}, Member{1, 0}));
  EXPECT_THAT(meetings.all[1].members, ElementsAre(Member{0, 2}, Member{1, 1}));
  EXPECT_THAT(meetings.unmatched, ElementsAre(0, 0));
  EXPECT_THAT(meetings.outside, ElementsAre(1, 0)) << "of step 0, which rank 1 did not record";
}

TEST(FindMeetings, OtherOperationsAndGroupsDoNotMeet) {
  EXPECT_TRUE(met({RecordedRank(0).collective(0, 10, 0), RecordedRank(1).collective(0, 10, 0, "broadcast")}).all.empty());
  const Meetings broadcasts = met({RecordedRank(0).collective(0, 10, 0, "broadcast"), RecordedRank(1).collective(0, 10, 0, "broadcast")});
  ASSERT_EQ(broadcasts.all.size(), 1U);
  EXPECT_FALSE(broadcasts.all[0].symmetric);
  std::vector<RankRecording> recordings{RecordedRank(0).collective(0, 10, 0).recording(), RecordedRank(1).collective(0, 10, 0).recording()};
  recordings[1].communications[0].group = "1 [0, 1]";
  EXPECT_TRUE(find_meetings(recordings).all.empty());
}

TEST(FindMeetings, NamesOfOneOperationAreKnown) {
  for (const char* operation : {"all_reduce", "allreduce_coalesced", "_allgather_base", "AllGather", "reduce_scatter_tensor", "all_to_allv",
                                "ReduceScatter", "barrier"}) {
    const Meetings meetings = met({RecordedRank(0).collective(0, 10, 0, operation), RecordedRank(1).collective(0, 10, 0, operation)});
    EXPECT_TRUE(meetings.all.at(0).symmetric) << operation;
  }
}

TEST(FindMeetings, SendsMeetTheirReceivesInOrder) {
  const Meetings meetings = met({RecordedRank(0).send(0, 10, 1).receive(10, 20, 1).send(20, 30, 1),
                                 RecordedRank(1).receive(0, 10, 0).send(12, 20, 0).receive(22, 30, 0)});
  ASSERT_EQ(meetings.all.size(), 3U);
  for (const Meeting& meeting : meetings.all) EXPECT_EQ(meeting.kind, Communication::Kind::send);
  EXPECT_THAT(meetings.all[0].members, ElementsAre(Member{0, 0}, Member{1, 0}));
  EXPECT_THAT(meetings.all[1].members, ElementsAre(Member{0, 2}, Member{1, 2}));
  EXPECT_THAT(meetings.all[2].members, ElementsAre(Member{1, 1}, Member{0, 1})) << "the send comes first";
}

TEST(FindMeetings, NumbersOfMessagesDoNotCount) {
  std::vector<RankRecording> recordings{RecordedRank(0).send(0, 10, 1).send(20, 30, 1).recording(),
                                        RecordedRank(1).receive(0, 10, 0).receive(20, 30, 0).recording()};
  for (std::size_t r : {std::size_t{0}, std::size_t{1}})
    for (std::size_t c : {std::size_t{0}, std::size_t{1}}) recordings[r].communications[c].sequence = static_cast<std::int64_t>(10 * r + c);
  EXPECT_EQ(find_meetings(recordings).all.size(), 2U) << "each side counts for itself";
}

TEST(FindMeetings, InAGroupOfTwoThePartnerIsTheOther) {
  std::vector<RankRecording> recordings{RecordedRank(0).send(0, 10, -1).recording(), RecordedRank(1).receive(0, 10, -1).recording()};
  EXPECT_EQ(find_meetings(recordings).all.size(), 1U);
  for (RankRecording& recording : recordings) recording.communications[0].members = {0, 1, 2};
  const Meetings meetings = find_meetings(recordings);
  EXPECT_TRUE(meetings.all.empty());
  EXPECT_THAT(meetings.unmatched, ElementsAre(1, 1));
}

TEST(FindMeetings, RecordingsMayBeginAndEndAtOtherSteps) {
  const Meetings meetings =
      met({RecordedRank(0).step(0, 0, 100).step(1, 100, 200).collective(10, 20, 0).collective(110, 120, 1).send(130, 140, 1),
           RecordedRank(1).step(1, 100, 200).step(2, 200, 300).collective(110, 120, 1).collective(210, 220, 2)});
  EXPECT_EQ(meetings.all.size(), 1U);
  EXPECT_THAT(meetings.outside, ElementsAre(1, 1));
  EXPECT_THAT(meetings.unmatched, ElementsAre(1, 0)) << "the send is of a step that both have";
}

TEST(FindMeetings, WhatHasNoCounterpartIsCounted) {
  const Meetings meetings = met({RecordedRank(0).send(0, 10, 1, 100).send(20, 30, 1, 50).send(40, 50, 7).send(60, 70, -1),
                                 RecordedRank(1).receive(0, 10, 0, 100).receive(20, 30, 0, 60)});
  EXPECT_EQ(meetings.all.size(), 1U);
  EXPECT_THAT(meetings.unmatched, ElementsAre(2, 1)) << "one of another size, one without counterpart";
  EXPECT_THAT(meetings.unequal, ElementsAre(1, 1));
  EXPECT_THAT(meetings.alone, ElementsAre(1, 0)) << "rank 7 has no recording";
}

TEST(FindMeetings, ACollectiveOfAMissingRankMeetsAmongTheOthers) {
  std::vector<RankRecording> recordings{RecordedRank(0).collective(0, 10, 0).recording(), RecordedRank(1).collective(0, 10, 0).recording()};
  for (RankRecording& recording : recordings) recording.communications[0].members = {0, 1, 2};
  EXPECT_EQ(find_meetings(recordings).all.size(), 1U);
  recordings.push_back(RecordedRank(2).recording());
  const Meetings incomplete = find_meetings(recordings);
  EXPECT_TRUE(incomplete.all.empty()) << "rank 2 may have come last";
  EXPECT_THAT(incomplete.unmatched, ElementsAre(1, 1, 0));
}

TEST(FindMeetings, AMessageToOneselfMeetsNobody) {
  const Meetings meetings = met({RecordedRank(0).send(0, 10, 0).receive(0, 10, 0), RecordedRank(1)});
  EXPECT_TRUE(meetings.all.empty());
}

}  // namespace
}  // namespace mptune::profiler
