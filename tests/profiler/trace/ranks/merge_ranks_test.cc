#include "profiler/trace/ranks/merge_ranks.h"

#include <gmock/gmock.h>

#include <random>

#include "profiler/base/index.h"
#include "profiler/trace/analyze/breakdown.h"
#include "profiler/trace/ranks/joined_edges.h"
#include "profiler/trace/store/tables.h"
#include "tests/profiler/trace/ranks/recorded_job.h"
#include "tests/support/error_of.h"

namespace mptune::profiler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::RecordedRank;

MergedRanks merged(const std::vector<RecordedRank>& ranks) {
  std::vector<RankRecording> recordings;
  for (const RecordedRank& rank : ranks) recordings.push_back(rank.recording());
  return merge_ranks(recordings);
}

constexpr std::int64_t kUs = 1000;

/// Ten steps of data parallelism, 1 ms each: rank 0 computes 400 us, rank 1 as `slow` says; then both sum gradients for 100 us.
std::vector<RecordedRank> data_parallel(const std::vector<std::int64_t>& slow_us, Nanoseconds offset, double drift) {
  std::vector<RecordedRank> ranks{RecordedRank(0), RecordedRank(1, offset, drift)};
  for (int step = 0; step < 10; ++step) {
    const std::int64_t start = 1000 * kUs * step + 100 * kUs, slow = slow_us[as_index(step) % slow_us.size()] * kUs;
    const std::int64_t last = start + std::max(400 * kUs, slow), end = last + 100 * kUs;
    for (std::size_t rank : {std::size_t{0}, std::size_t{1}}) {
      const std::int64_t own = rank == 0 ? 400 * kUs : slow;
      ranks[rank].step(step, start, end).compute(start, start + own).collective(start + own, end, step);
    }
  }
  return ranks;
}

TEST(MergeRanks, FindsClockAndStragglerOfDataParallelism) {
  const MergedRanks job = merged(data_parallel({430}, Nanoseconds{-3'456'789}, 4e-5));
  EXPECT_EQ(inconsistency(job.trace), "");
  EXPECT_EQ(job.trace.devices[0].name, "0@cuda:0");
  EXPECT_EQ(job.trace.devices[1].name, "1@cuda:0");
  EXPECT_EQ(job.ranks[0].clock.source, ClockSource::reference);
  EXPECT_NEAR(static_cast<double>(job.ranks[1].clock.clock.offset.count()), -3'456'789, 1000);
  EXPECT_NEAR(job.ranks[1].clock.clock.drift, 4e-5, 1e-7);
  EXPECT_EQ(job.ranks[1].clock.ends, 10);
  EXPECT_LE(job.ranks[1].clock.error, Nanoseconds{5});
  EXPECT_EQ(job.trace.quality.unmatched, 0);
  const Breakdown breakdown = break_down(job.trace);
  ASSERT_EQ(breakdown.steps.size(), 10U);
  for (const StepBreakdown& step : breakdown.steps) {
    EXPECT_NEAR(static_cast<double>(step.devices[0].causes.straggler.count()), 30 * kUs, 5);
    EXPECT_NEAR(static_cast<double>(step.devices[0].idle.count()), 30 * kUs, 5);
    EXPECT_NEAR(static_cast<double>(step.devices[1].idle.count()), 0, 5);
    EXPECT_NEAR(static_cast<double>(step.devices[0].window.count()), 530 * kUs, 5);
  }
}

TEST(MergeRanks, ChangingDelaysAreJitter) {
  const MergedRanks job = merged(data_parallel({400, 400, 400, 460, 400}, Nanoseconds{1'000'000}, -1e-5));
  const Breakdown breakdown = break_down(job.trace);
  for (const StepBreakdown& step : breakdown.steps) {
    const double expected = step.step % 5 == 3 ? 60 * kUs : 0;
    EXPECT_NEAR(static_cast<double>(step.devices[0].causes.jitter.count()), expected, 5) << step.step;
    EXPECT_NEAR(static_cast<double>(step.devices[0].causes.straggler.count()), 0, 5) << step.step;
  }
}

/// Two stages, two micro-batches: rank 0 computes forwards for 100 us and backwards for 200, rank 1 both for 350; messages take 10 us.
///
///     rank 0  | F0 | F1 |            |  B0  |  | B1 |
///     rank 1       >| FB0         |>   | FB1     |>
std::vector<RecordedRank> pipeline(Nanoseconds offset, double drift) {
  std::vector<RecordedRank> ranks{RecordedRank(0), RecordedRank(1, offset, drift)};
  for (int step = 0; step < 8; ++step) {
    const std::int64_t start = 2000 * kUs * step + 50 * kUs;
    const auto at = [&](std::int64_t us) { return start + us * kUs; };
    ranks[0]
        .step(step, at(0), at(1030))
        .compute(at(0), at(100))
        .send(at(100), at(110), 1)
        .compute(at(100), at(200))
        .send(at(200), at(470), 1);
    ranks[0].receive(at(200), at(470), 1).compute(at(470), at(670)).receive(at(670), at(820), 1).compute(at(820), at(1020));
    ranks[1]
        .step(step, at(0), at(820))
        .receive(at(0), at(110), 0)
        .compute(at(110), at(460))
        .receive(at(460), at(470), 0)
        .send(at(460), at(470), 0);
    ranks[1].compute(at(470), at(810)).send(at(810), at(820), 0);
  }
  return ranks;
}

TEST(MergeRanks, SendsAndReceivesBecomeCopies) {
  const MergedRanks job = merged(pipeline(Nanoseconds{250'000}, -3e-5));
  EXPECT_EQ(inconsistency(job.trace), "");
  EXPECT_NEAR(static_cast<double>(job.ranks[1].clock.clock.offset.count()), 250'000, 1000);
  EXPECT_EQ(std::ranges::count(job.trace.events, EventKind::collective, &Event::kind), 0) << "copies stand for them";
  EXPECT_EQ(std::ranges::count(job.trace.events, EventKind::copy, &Event::kind), 4 * 8);
  const Breakdown breakdown = break_down(job.trace);
  for (const StepBreakdown& step : breakdown.steps) {
    const DeviceBreakdown &first = step.devices[0], &second = step.devices[1];
    EXPECT_NEAR(static_cast<double>(first.compute.count() + first.overlap.count()), 600 * kUs, 10);
    EXPECT_NEAR(static_cast<double>(second.compute.count() + second.overlap.count()), 690 * kUs, 10);
    // Rank 0 waits for gradients, but for the 10 us of each copy.
    EXPECT_NEAR(static_cast<double>(first.idle.count()), (260 + 140 + 10) * kUs, 10);
    EXPECT_NEAR(static_cast<double>(second.idle.count()), (100 + 210) * kUs, 10);
    EXPECT_LE(first.causes.unexplained, Nanoseconds{10'020}) << "the end of the step, in which nothing is recorded";
  }
  for (const Event& event : job.trace.events) {
    const Tag& tag = job.trace.tags[as_index(event.tag)];
    EXPECT_EQ(tag.stage, event.device) << "rank 0 sends first";
    EXPECT_EQ(tag.replica, 0);
  }
}

TEST(MergeRanks, AKernelThatSendsAndReceivesIsTwoCopies) {
  RecordedRank a(0), b(1);
  a.step(0, 0, 400).compute(0, 100).send(100, 200, 1).also(Communication::Kind::receive, 1).compute(200, 300);
  b.step(0, 0, 400).compute(0, 150).send(150, 200, 0).also(Communication::Kind::receive, 0).compute(200, 300);
  const MergedRanks job = merged({a, b});
  std::vector<std::pair<int, int>> ends;
  for (const Event& event : job.trace.events)
    if (event.kind == EventKind::copy) {
      ends.emplace_back(job.trace.copies[as_index(event.detail)].source, job.trace.copies[as_index(event.detail)].destination);
      EXPECT_EQ(event.start, Nanoseconds{150});
      EXPECT_EQ(event.end(), Nanoseconds{200});
    }
  EXPECT_THAT(ends, ::testing::UnorderedElementsAre(std::pair(0, 1), std::pair(1, 0)));
}

TEST(MergeRanks, NamesWhatIsMissing) {
  std::vector<RankRecording> recordings{RecordedRank(2).send(0, 10, 5).recording(), RecordedRank(0).recording()};
  recordings[0].ranks = 4;
  recordings[1].trace.events.push_back({.name = 0, .kind = EventKind::kernel});
  recordings[1].trace.names = {"gemm"};
  recordings[1].rank = -1;
  const MergedRanks job = merge_ranks(recordings);
  EXPECT_THAT(job.missing, ElementsAre(1, 3, 5));
  EXPECT_TRUE(job.ranks[0].rank_assumed);
  EXPECT_EQ(job.ranks[1].rank, 2);
  EXPECT_EQ(job.ranks[1].alone, 1);
  EXPECT_EQ(job.ranks[1].clock.source, ClockSource::none);
}

// Ranks 0 and 1 sum gradients in every millisecond; the recording of rank `late` begins with the third, the others' with the first.
std::vector<RecordedRank> without_steps(std::size_t late, int last_of_first) {
  std::vector<RecordedRank> ranks{RecordedRank(0), RecordedRank(1)};
  for (int turn = 0; turn < 8; ++turn) {
    const std::int64_t start = 1000 * kUs * turn;
    for (std::size_t rank : {std::size_t{0}, std::size_t{1}}) {
      if ((rank == late && turn < 2) || (rank == 0 && turn > last_of_first)) continue;
      const std::int64_t own = rank == 0 ? 400 * kUs : 500 * kUs;
      ranks[rank].compute(start, start + own).collective(start + own, start + 600 * kUs, turn);
    }
  }
  return ranks;
}

TEST(MergeRanks, OfDifferentTimesWithoutStepsWhatAllHoldIsAnalysed) {
  const MergedRanks job = merged(without_steps(1, 5));
  EXPECT_EQ(inconsistency(job.trace), "");
  EXPECT_EQ(job.common_window, Nanoseconds{3600 * kUs}) << "from the third millisecond's start to the sixth's sum";
  ASSERT_EQ(job.trace.steps.size(), 1U);
  EXPECT_EQ(job.trace.steps[0].end - job.trace.steps[0].start, job.common_window);
  EXPECT_EQ(job.ranks[0].outside, 2);
  EXPECT_EQ(job.ranks[1].outside, 2);
  EXPECT_EQ(job.ranks[0].unmatched + job.ranks[1].unmatched, 0);
  EXPECT_EQ(job.trace.quality.unmatched, 0);
  EXPECT_EQ(job.trace.quality.cut_off, 4);
  EXPECT_EQ(job.trace.quality.unmatched_ns, 0);
  const Breakdown breakdown = break_down(job.trace);
  EXPECT_EQ(breakdown.steps[0].devices[0].idle, Nanoseconds{(3 * 400 + 4 * 100) * kUs}) << "three gaps, and four waits for rank 1";
}

TEST(MergeRanks, OfEqualTimesNothingIsCutOff) {
  const MergedRanks job = merged(without_steps(2, 7));
  EXPECT_EQ(job.common_window, Nanoseconds{0});
  EXPECT_TRUE(job.trace.steps.empty());
}

// A communication without counterpart within the common time is a loss.
TEST(MergeRanks, WhatIsMissingWithinTheCommonTimeIsUnmatched) {
  std::vector<RecordedRank> ranks = without_steps(2, 7);
  ranks[0].collective(7650 * kUs, 7700 * kUs, 90).compute(7700 * kUs, 7710 * kUs);
  ranks[1].compute(7650 * kUs, 7760 * kUs);
  const MergedRanks job = merged(ranks);
  EXPECT_EQ(job.common_window, Nanoseconds{0});
  EXPECT_EQ(job.ranks[0].unmatched, 1);
}

TEST(MergeRanks, TimeInCollectivesWithMissingRanksIsSaid) {
  std::vector<RankRecording> recordings;
  for (const RecordedRank& rank : data_parallel({430}, {}, 0)) recordings.push_back(rank.recording());
  EXPECT_EQ(merge_ranks(recordings).with_missing, Nanoseconds{0});
  for (RankRecording& recording : recordings)
    for (Communication& one : recording.communications) one.members = {0, 1, 7};
  const MergedRanks job = merge_ranks(recordings);
  EXPECT_THAT(job.missing, ElementsAre(7));
  EXPECT_EQ(job.with_missing, Nanoseconds{10 * 2 * 100 * kUs}) << "both ranks, after the later one came";
}

TEST(MergeRanks, RefusesTwoFilesOfOneRank) {
  const std::string refusal = mptune::testing::refusal_of([] { (void)merged({RecordedRank(1), RecordedRank(1)}); });
  EXPECT_THAT(refusal, HasSubstr("it is of rank 1, as is rank1.json"));
}

TEST(MergeRanks, KernelsStandForCommunicationsThatNobodyDescribes) {
  std::vector<RecordedRank> ranks = data_parallel({430}, Nanoseconds{2'000'000}, 0);
  std::vector<RankRecording> recordings;
  for (const RecordedRank& rank : ranks) recordings.push_back(rank.recording());
  for (RankRecording& recording : recordings) {
    recording.communications.clear();
    recording.trace.names = {"gemm", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"};
  }
  const MergedRanks job = merge_ranks(recordings);
  EXPECT_NEAR(static_cast<double>(job.ranks[1].clock.clock.offset.count()), 2'000'000, 10);
  EXPECT_EQ(job.ranks[1].communications, 10);
  recordings[1].trace.names[1] = recordings[0].trace.names[1] = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)";
  EXPECT_EQ(merge_ranks(recordings).ranks[1].clock.ends, 10) << "of two ranks, each is the other's partner";
  recordings.push_back(recordings[1]);
  recordings[2].rank = 2;
  EXPECT_EQ(merge_ranks(recordings).ranks[1].unmatched, 10) << "of three ranks, the partner is not known";
}

TEST(MergeRanks, AnyRecordingsMakeAConsistentTrace) {
  std::mt19937 random(3);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 200; ++round) {
    std::vector<RecordedRank> ranks;
    for (int rank = 0; rank < 3; ++rank) {
      RecordedRank recorded(rank, Nanoseconds{below(1000) - 500}, 1e-4 * below(3));
      std::int64_t compute = 0, communicate = 0;
      for (int i = 0; i < 30; ++i) {
        compute += below(50);
        recorded.compute(compute, compute + 20);
        compute += 20;
        communicate = std::max(communicate, compute) + below(30);
        const int kind = below(4);
        const std::int64_t end = communicate + below(60);
        if (kind == 0) recorded.collective(communicate, end, below(2) == 0 ? -1 : i);
        if (kind == 1) recorded.send(communicate, end, below(4));
        if (kind == 2) recorded.receive(communicate, end, below(4), 100 + below(2));
        if (kind == 3 && i > 0) recorded.collective(communicate, end, 7, "broadcast");
        communicate = end;
      }
      ranks.push_back(recorded);
    }
    const MergedRanks job = merged(ranks);
    ASSERT_EQ(inconsistency(job.trace), "") << round;
    for (const StepBreakdown& step : break_down(job.trace).steps)
      for (const DeviceBreakdown& device : step.devices) EXPECT_EQ(device.causes.total(), device.idle);
  }
}

}  // namespace
}  // namespace mptune::profiler
