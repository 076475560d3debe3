#include "profiler/trace/ranks/communicators.h"

#include <gmock/gmock.h>

#include <map>
#include <random>
#include <set>

#include "profiler/base/index.h"
#include "profiler/trace/analyze/breakdown.h"
#include "profiler/trace/analyze/quality_objection.h"
#include "profiler/trace/ranks/device_meetings.h"
#include "profiler/trace/ranks/merge_ranks.h"
#include "profiler/trace/store/tables.h"
#include "profiler/trace/values/intervals.h"

namespace mptune::profiler {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr std::int64_t kMicrosecond = 1000;

const char* const kAllReduce = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
const char* const kAllGather = "ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclWorkElem)";
const char* const kSendRecv = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)";

/// Recordings that describe nothing, written in true times and kept on clocks of their own.
class UndescribedJob {
 public:
  explicit UndescribedJob(int ranks, const std::vector<std::int64_t>& offsets = {}) : offsets_(offsets) {
    offsets_.resize(as_index(ranks), 0);
    for (int rank = 0; rank < ranks; ++rank) {
      RankRecording recording;
      recording.rank = rank;
      recording.ranks = ranks;
      recording.file = "rank" + std::to_string(rank) + ".json";
      recording.trace.devices.push_back({.name = "cuda:" + std::to_string(rank), .description = "CUDA device"});
      recordings.push_back(recording);
    }
  }

  void know_time_of_day() {
    for (RankRecording& recording : recordings) recording.trace.started_utc_ns = 1'700'000'000'000'000'000;
  }

  void step(int rank, int number, std::int64_t start, std::int64_t end) {
    trace(rank).steps.push_back({number, own(rank, start), own(rank, end)});
  }

  void run(int rank, int stream, const std::string& name, std::int64_t start, std::int64_t end) {
    Trace& to = trace(rank);
    const auto known = std::ranges::find(to.names, name);
    const auto index = static_cast<std::int32_t>(known - to.names.begin());
    if (known == to.names.end()) to.names.push_back(name);
    to.kernels.push_back({.stream = stream});
    to.events.push_back({.start = own(rank, start),
                         .duration = Nanoseconds{end - start},
                         .name = index,
                         .detail = static_cast<std::int32_t>(to.kernels.size()) - 1,
                         .lane = static_cast<std::uint8_t>(stream % 50),
                         .kind = name.starts_with("nccl") ? EventKind::collective : EventKind::kernel});
  }

  std::vector<RankRecording> recordings;

 private:
  Trace& trace(int rank) { return recordings[as_index(rank)].trace; }
  Nanoseconds own(int rank, std::int64_t time) const { return Nanoseconds{time - offsets_[as_index(rank)]}; }
  std::vector<std::int64_t> offsets_;
};

std::vector<Nanoseconds> computed(const Trace& trace) {
  std::vector<Nanoseconds> sums(trace.devices.size());
  for (const StepBreakdown& step : break_down(trace).steps)
    for (std::size_t d = 0; d < sums.size(); ++d) sums[d] += step.devices[d].compute + step.devices[d].overlap;
  return sums;
}

/// Steps of 10 ms: ranks compute 1, 2, ... ms, then all take part in one collective of 200 us.
UndescribedJob uneven(int ranks, const char* collective, const std::vector<std::int64_t>& offsets = {}) {
  UndescribedJob job(ranks, offsets);
  for (int step = 0; step < 4; ++step) {
    for (int rank = 0; rank < ranks; ++rank) {
      const std::int64_t start = 10'000 * kMicrosecond * step, came = start + 1000 * kMicrosecond * (rank + 1);
      job.step(rank, step, start, start + 9000 * kMicrosecond);
      job.run(rank, 7, "gemm", start, came);
      job.run(rank, 20, collective, came, start + (1000 * ranks + 200) * kMicrosecond);
    }
  }
  return job;
}

TEST(OperationOfKernel, IsKnownInAllFormsOfTheName) {
  EXPECT_EQ(operation_of_kernel(kAllReduce), "allreduce");
  EXPECT_EQ(operation_of_kernel(kAllGather), "allgather");
  EXPECT_EQ(operation_of_kernel(kSendRecv), "sendrecv");
  EXPECT_EQ(operation_of_kernel("ncclAllReduceRingLLKernel_sum_f32(ncclColl)"), "allreduce");
  EXPECT_EQ(operation_of_kernel("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(x)"), "reducescatter");
  EXPECT_EQ(operation_of_kernel("ncclDevKernel_Reduce_Sum_bf16_RING_LL(x)"), "reduce");
  EXPECT_EQ(operation_of_kernel("ncclDevKernel_Broadcast_RING_LL(x)"), "broadcast");
  EXPECT_EQ(operation_of_kernel("ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)"), "nccl");
  EXPECT_EQ(operation_of_kernel("ncclDevKernel_Generic(ncclAllReduceArguments)"), "nccl") << "arguments say nothing";
}

TEST(Communicators, CollectivesOfEveryKindWait) {
  for (const char* kind : {kAllReduce, kAllGather, kSendRecv, "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(x)",
                           "ncclDevKernel_Broadcast_RING_LL(x)", "ncclDevKernel_Generic(x)"}) {
    UndescribedJob job = uneven(3, kind);
    job.know_time_of_day();
    const MergedRanks merged = merge_ranks(job.recordings);
    EXPECT_THAT(computed(merged.trace),
                ElementsAre(Nanoseconds{4800 * kMicrosecond}, Nanoseconds{8800 * kMicrosecond}, Nanoseconds{12800 * kMicrosecond}))
        << kind;
    EXPECT_EQ(merged.trace.quality.unmatched, 0);
    EXPECT_EQ(merged.trace.quality.unmatched_ns, 0);
    EXPECT_FALSE(quality_objection(merged.trace));
  }
}

// With clocks that nobody knows, the fit of the ends may be by chance: sends and receives of a pipeline have constant distances, too.
TEST(Communicators, WhatNothingProvesMeetsNothingAndIsSaid) {
  UndescribedJob job = uneven(3, kSendRecv, {0, 777 * kMicrosecond, -31 * kMicrosecond});
  const MergedRanks merged = merge_ranks(job.recordings);
  EXPECT_EQ(merged.trace.quality.unmatched, 12);
  EXPECT_EQ(merged.trace.quality.unmatched_ns, 4 * (2200 + 1200 + 200) * kMicrosecond);
  ASSERT_TRUE(quality_objection(merged.trace));
  EXPECT_EQ(quality_objection(merged.trace)->loss, QualityObjection::Loss::unmatched_time);
  EXPECT_NEAR(quality_objection(merged.trace)->share, 3.6 / 27, 0.02);
  for (RankRecording& recording : job.recordings)
    for (int i = 1; i < 8; i += 2)
      recording.communications.push_back(
          {.operation = "all_to_all", .group = "", .members = {}, .step = i / 2, .event = i, .described = false});
  EXPECT_EQ(merge_ranks(job.recordings).trace.quality.unmatched, 0) << "their ranges say that they are collectives";
  EXPECT_EQ(merge_ranks(uneven(2, kSendRecv, {0, 777 * kMicrosecond}).recordings).trace.quality.unmatched, 0)
      << "of two, each is the other's partner";
  EXPECT_EQ(merge_ranks(uneven(3, kAllGather, {0, 777 * kMicrosecond, 5}).recordings).trace.quality.unmatched, 0)
      << "one communicator for all";
}

// Rank 1 sends and receives twice as often as its neighbours: no collective.
TEST(Communicators, MessagesOfAPipelineAreNoCollective) {
  UndescribedJob job(3);
  job.know_time_of_day();
  for (int step = 0; step < 6; ++step) {
    const std::int64_t start = 10'000 * kMicrosecond * step;
    const auto at = [&](std::int64_t us) { return start + us * kMicrosecond; };
    for (int rank = 0; rank < 3; ++rank) {
      job.step(rank, step, start, at(9000));
      job.run(rank, 7, "gemm", at(1000 * rank), at(1000 * rank + 900));
    }
    job.run(0, 20, kSendRecv, at(900), at(1000));
    job.run(1, 20, kSendRecv, at(0), at(1000));
    job.run(1, 20, kSendRecv, at(1900), at(2000));
    job.run(2, 20, kSendRecv, at(0), at(2000));
  }
  const MergedRanks merged = merge_ranks(job.recordings);
  EXPECT_EQ(merged.trace.quality.unmatched, 24);
  EXPECT_TRUE(quality_objection(merged.trace));
  EXPECT_EQ(inconsistency(merged.trace), "");
}

// First and last rank send and receive equally often, at constant distances: no proof that they do it with each other.
TEST(Communicators, TheEndsOfASmoothPipelineDoNotMeet) {
  for (const bool known : {true, false}) {
    UndescribedJob job(4);
    if (known) job.know_time_of_day();
    for (int step = 0; step < 3; ++step) {
      const std::int64_t start = 20'000 * kMicrosecond * step;
      const auto at = [&](std::int64_t us) { return start + us * kMicrosecond; };
      for (int rank = 0; rank < 4; ++rank) {
        job.step(rank, step, start, at(19'000));
        for (int i = 0; i < 3; ++i) {
          const std::int64_t begins = 100 + 2000 * i + 2100 * rank;
          if (rank > 0) job.run(rank, 20, kSendRecv, at(i == 0 ? 50 : begins - 60), at(begins));
          job.run(rank, 7, "gemm", at(begins), at(begins + 1900));
          if (rank < 3) job.run(rank, 20, kSendRecv, at(begins + 2000), at(begins + 2100));
        }
      }
    }
    std::vector<RankRecording> recordings = job.recordings;
    add_undescribed(recordings);
    find_communicators(recordings);
    for (const std::size_t rank : {std::size_t{0}, std::size_t{3}})
      EXPECT_THAT(recordings[rank].communications, Each(::testing::Field(&Communication::group, ""))) << rank;
    EXPECT_TRUE(quality_objection(merge_ranks(job.recordings).trace));
  }
}

// All-to-alls of some ranks on a stream of their own; the all-reduces of all ranks tell the clocks.
TEST(Communicators, CollectivesTellTheClocksOfAllToAlls) {
  std::mt19937 random(17);
  UndescribedJob job(4, {0, 5'000'000, -70'000'000, 900'000'000});
  for (int i = 0; i < 12; ++i) {
    const std::int64_t start = 10'000 * kMicrosecond * i;
    std::vector<std::int64_t> came;
    for (int rank = 0; rank < 4; ++rank) {
      came.push_back(start + static_cast<std::int64_t>(random() % 3000) * kMicrosecond);
      job.run(rank, 7, "gemm", start, came.back());
    }
    for (const int first : {0, 2}) {
      const std::int64_t end = std::max(came[as_index(first)], came[as_index(first + 1)]) + 200 * kMicrosecond;
      for (const int rank : {first, first + 1}) job.run(rank, 20, kSendRecv, came[as_index(rank)], end);
    }
    for (int rank = 0; rank < 4; ++rank)
      job.run(rank, 24, kAllReduce, std::max(came[as_index(rank)], came[as_index(rank ^ 1)]) + 200 * kMicrosecond,
              start + 4000 * kMicrosecond);
  }
  const MergedRanks merged = merge_ranks(job.recordings);
  EXPECT_EQ(merged.trace.quality.unmatched, 0);
  EXPECT_EQ(merged.ranks[3].clock.source, ClockSource::communications);
}

TEST(Communicators, AKernelBesidesComputationHidesItsWait) {
  UndescribedJob job(3);
  for (int rank = 0; rank < 3; ++rank) {
    job.run(rank, 7, "gemm", 0, 5000 * kMicrosecond);
    job.run(rank, 20 + rank, rank == 1 ? kAllGather : kSendRecv, 1000 * kMicrosecond, (4000 + 1500 * rank) * kMicrosecond);
  }
  EXPECT_EQ(merge_ranks(job.recordings).trace.quality.unmatched_ns, (500 + 2000) * kMicrosecond) << "what is beyond the computation";
}

TEST(Communicators, AStepThatLacksAKernelIsLeftOut) {
  UndescribedJob job = uneven(3, kAllGather);
  job.know_time_of_day();
  job.recordings[1].trace.events.pop_back();
  const MergedRanks merged = merge_ranks(job.recordings);
  EXPECT_EQ(merged.trace.quality.unmatched, 2) << "of ranks 0 and 2 in the last step";
  EXPECT_EQ(merged.ranks[1].unmatched, 0);
}

/// A job of random size, groups, clocks and streams, and what must be found in it.
struct RandomJob {
  UndescribedJob job{0};
  std::vector<std::set<std::pair<int, Nanoseconds>>> meetings;  ///< rank and start of each kernel
  std::vector<Nanoseconds> computed;                            ///< by rank
};

RandomJob random_job(std::mt19937& random, bool known_clocks) {
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n)); };
  const int inner = 2 + static_cast<int>(below(3)), outer = 1 + static_cast<int>(below(3)), ranks = inner * outer;
  std::vector<std::int64_t> offsets;
  for (int rank = 0; rank < ranks; ++rank)
    offsets.push_back(known_clocks || rank == 0 ? 0 : below(4'000'000 * kMicrosecond) - 2'000'000 * kMicrosecond);
  RandomJob made{.job = UndescribedJob(ranks, offsets), .meetings = {}, .computed = std::vector<Nanoseconds>(as_index(ranks))};
  if (known_clocks) made.job.know_time_of_day();
  const std::array kinds{kAllReduce, kAllGather, kSendRecv, "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(x)"};
  // Tensor parallelism within `inner`, data parallelism over `outer`; operations of a step are the same on all ranks.
  // One is no send or receive: these alone prove no clock.
  std::vector<const char*> program{kAllReduce};
  for (int i = 1; i < 4; ++i) program.push_back(kinds[as_index(below(4))]);
  std::vector<int> stream_inner, stream_outer;
  for (int rank = 0; rank < ranks; ++rank) {
    stream_inner.push_back(20 + static_cast<int>(below(9)));
    stream_outer.push_back(stream_inner.back() + 1 + static_cast<int>(below(9)));
  }
  std::vector<std::int64_t> now(as_index(ranks), 0);
  std::vector<std::vector<TimeInterval>> busy(as_index(ranks));
  const auto meet = [&](const std::vector<int>& members, const char* kind, const std::vector<int>& streams) {
    std::int64_t last = 0;
    for (const int rank : members) last = std::max(last, now[as_index(rank)]);
    const std::int64_t end = last + (100 + below(400)) * kMicrosecond;
    std::set<std::pair<int, Nanoseconds>> meeting;
    for (const int rank : members) {
      std::int64_t& came = now[as_index(rank)];
      const std::int64_t left = end + below(5 * kMicrosecond);
      made.job.run(rank, streams[as_index(rank)], kind, came, left);
      meeting.insert({rank, Nanoseconds{came}});
      busy[as_index(rank)].push_back({Nanoseconds{last}, Nanoseconds{left}});
      came = left;
    }
    made.meetings.push_back(meeting);
  };
  for (int step = 0; step < 8; ++step) {
    const std::int64_t start = *std::ranges::max_element(now) + 10 * kMicrosecond;
    for (int rank = 0; rank < ranks; ++rank) now[as_index(rank)] = start;
    for (const char* kind : program) {
      for (int rank = 0; rank < ranks; ++rank) {
        const std::int64_t end = now[as_index(rank)] + (300 + below(1500)) * kMicrosecond;
        made.job.run(rank, 7, "gemm", now[as_index(rank)], end);
        busy[as_index(rank)].push_back({Nanoseconds{now[as_index(rank)]}, Nanoseconds{end}});
        now[as_index(rank)] = end;
      }
      for (int group = 0; group < outer; ++group) {
        std::vector<int> members;
        for (int i = 0; i < inner; ++i) members.push_back(group * inner + i);
        meet(members, kind, stream_inner);
      }
    }
    for (int place = 0; place < inner && outer > 1; ++place) {
      std::vector<int> members;
      for (int group = 0; group < outer; ++group) members.push_back(group * inner + place);
      meet(members, kAllReduce, stream_outer);
    }
    const std::int64_t end = *std::ranges::max_element(now) + kMicrosecond;
    for (int rank = 0; rank < ranks; ++rank) made.job.step(rank, step, start, end);
  }
  for (int rank = 0; rank < ranks; ++rank) made.computed[as_index(rank)] = total(merge(busy[as_index(rank)]));
  return made;
}

TEST(Communicators, AreFoundInRandomJobs) {
  std::mt19937 random(11);
  for (int round = 0; round < 120; ++round) {
    RandomJob made = random_job(random, round % 2 == 0);
    std::vector<RankRecording> recordings = made.job.recordings;
    std::shuffle(recordings.begin(), recordings.end(), random);
    const MergedRanks merged = merge_ranks(recordings);
    ASSERT_EQ(merged.trace.quality.unmatched, 0) << round;
    ASSERT_EQ(inconsistency(merged.trace), "");
    const std::vector<Nanoseconds> found = computed(merged.trace);
    for (std::size_t rank = 0; rank < found.size(); ++rank) {
      // Clocks are known to some microseconds, which is what ends differ by.
      const double most = round % 2 == 0 ? 10'000.0 * 40 : 20'000.0 * 40;
      EXPECT_NEAR(static_cast<double>(found[rank].count()), static_cast<double>(made.computed[rank].count()), most) << round << " " << rank;
    }
  }
}

TEST(Communicators, GroupsAreThoseOfRandomJobs) {
  std::mt19937 random(12);
  for (int round = 0; round < 120; ++round) {
    RandomJob made = random_job(random, true);
    std::vector<RankRecording> recordings = made.job.recordings;
    add_undescribed(recordings);
    find_communicators(recordings);
    std::map<std::pair<std::string, std::int64_t>, std::set<std::pair<int, Nanoseconds>>> found;
    for (const RankRecording& recording : recordings)
      for (const Communication& one : recording.communications)
        found[{one.group, one.sequence}].insert({recording.rank, recording.trace.events[as_index(one.event)].start});
    std::set<std::set<std::pair<int, Nanoseconds>>> all;
    for (const auto& [key, meeting] : found) all.insert(meeting);
    EXPECT_EQ(all, std::set(made.meetings.begin(), made.meetings.end())) << round;
  }
}

// One recording of all devices, as Nsight Systems makes it of several processes.
TEST(JoinDevices, CollectivesOfOneRecordingWait) {
  std::mt19937 random(13);
  for (int round = 0; round < 30; ++round) {
    RandomJob made = random_job(random, true);
    Trace whole;
    for (const RankRecording& recording : made.job.recordings) {
      const Trace& part = recording.trace;
      const auto device = static_cast<std::int16_t>(whole.devices.size());
      whole.devices.push_back(part.devices.front());
      for (Event event : part.events) {
        event.device = device;
        event.name += static_cast<std::int32_t>(whole.names.size());
        event.detail += static_cast<std::int32_t>(whole.kernels.size());
        whole.events.push_back(event);
      }
      whole.names.insert(whole.names.end(), part.names.begin(), part.names.end());
      whole.kernels.insert(whole.kernels.end(), part.kernels.begin(), part.kernels.end());
    }
    std::ranges::stable_sort(whole.events, {}, &Event::start);
    if (round % 2 == 0) whole.steps = made.job.recordings.front().trace.steps;
    join_devices(whole);
    ASSERT_EQ(inconsistency(whole), "");
    EXPECT_EQ(whole.quality.unmatched_ns, 0) << round;
    const std::vector<Nanoseconds> found = computed(whole);
    for (std::size_t rank = 0; rank < found.size(); ++rank)
      EXPECT_NEAR(static_cast<double>(found[rank].count()), static_cast<double>(made.computed[rank].count()), 1'000)
          << round << " " << rank;
    const Trace once = whole;
    join_devices(whole);
    EXPECT_EQ(whole, once) << "twice changes nothing";
  }
}

TEST(JoinDevices, WhatMeetsNothingIsSaid) {
  UndescribedJob job(1);
  Trace& trace = job.recordings[0].trace;
  trace.devices.push_back({.name = "cuda:1", .description = "CUDA device"});
  for (int i = 0; i < 4; ++i) job.run(0, 20, kAllReduce, 1000 * i, 1000 * i + 500);
  job.run(0, 21, kAllGather, 10'000, 10'700);
  trace.events.back().device = 1;
  const Trace before = trace;
  join_devices(trace);
  EXPECT_EQ(trace.quality.unmatched_ns, 2700);
  EXPECT_EQ(trace.events, before.events);
}

TEST(Communicators, MessagesThatNameTheirRanksMeet) {
  UndescribedJob job(3);
  job.know_time_of_day();
  const auto message = [&](int rank, int peer, bool sends, std::int64_t start, std::int64_t end) {
    job.run(rank, 20, kSendRecv, start, end);
    RankRecording& recording = job.recordings[as_index(rank)];
    recording.communications.push_back({.kind = sends ? Communication::Kind::send : Communication::Kind::receive,
                                        .operation = sends ? "send" : "recv",
                                        .group = "",
                                        .members = {},
                                        .peer = peer,
                                        .event = static_cast<int>(recording.trace.events.size()) - 1,
                                        .described = false,
                                        .own = rank});
  };
  message(0, 1, true, 900 * kMicrosecond, 1000 * kMicrosecond);
  message(1, 0, false, 0, 1000 * kMicrosecond);
  message(1, 2, true, 1900 * kMicrosecond, 2000 * kMicrosecond);
  message(2, 1, false, 0, 2000 * kMicrosecond);
  const MergedRanks merged = merge_ranks(job.recordings);
  EXPECT_EQ(merged.trace.quality.unmatched, 0);
  EXPECT_EQ(std::ranges::count(merged.trace.events, EventKind::copy, &Event::kind), 2);
  // Numbers of a group that is not all processes say nothing of ranks.
  job.recordings[2].communications[0].own = 1;
  job.recordings[2].communications[0].peer = 0;
  EXPECT_GT(merge_ranks(job.recordings).trace.quality.unmatched, 0);
}

}  // namespace
}  // namespace mptune::profiler
