#include "profiler/trace/ranks/pipeline_ranges.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <random>
#include <tuple>

#include "profiler/base/index.h"
#include "profiler/trace/ranks/merge_ranks.h"
#include "profiler/trace/ranks/virtual_stages.h"
#include "profiler/trace/store/tables.h"

namespace mptune::profiler {
namespace {

TEST(PipelineRange, NamesOfPrograms) {
  EXPECT_EQ(pipeline_range_of("PP:1F3"), (PipelineRange{EventKind::forward, 1, 3}));
  EXPECT_EQ(pipeline_range_of("PP:12B0"), (PipelineRange{EventKind::backward, 12, 0}));
  EXPECT_EQ(pipeline_range_of("PP:0I7"), (PipelineRange{EventKind::backward_input, 0, 7}));
  EXPECT_EQ(pipeline_range_of("PP:0W7"), (PipelineRange{EventKind::backward_weight, 0, 7}));
  EXPECT_EQ(pipeline_range_of("Forward 4"), (PipelineRange{EventKind::forward, -1, 4}));
  EXPECT_EQ(pipeline_range_of("Backward 0"), (PipelineRange{EventKind::backward, -1, 0}));
  for (const char* name : {"forward_step", "forward-compute", "megatron.core.pipeline_parallel.schedules.forward_step"})
    EXPECT_EQ(pipeline_range_of(name), PipelineRange{.kind = EventKind::forward}) << name;
  EXPECT_EQ(pipeline_range_of("megatron/backward_step"), PipelineRange{.kind = EventKind::backward});
  EXPECT_EQ(pipeline_range_of("Optimizer.step#AdamW.step"), PipelineRange{.kind = EventKind::optimizer});
  // PyTorch's profiler with stacks.
  EXPECT_EQ(pipeline_range_of("megatron/core/pipeline_parallel/schedules.py(284): forward_step"),
            PipelineRange{.kind = EventKind::forward});
  EXPECT_EQ(pipeline_range_of("/opt/megatron/core/pipeline_parallel/schedules.py(450): backward_step"),
            PipelineRange{.kind = EventKind::backward});
  EXPECT_EQ(pipeline_range_of("torch/distributed/pipelining/stage.py(650): forward_one_chunk"), PipelineRange{.kind = EventKind::forward});
  EXPECT_EQ(pipeline_range_of("torch/distributed/pipelining/stage.py(725): backward_one_chunk"),
            PipelineRange{.kind = EventKind::backward});
  EXPECT_FALSE(pipeline_range_of("torch/nn/modules/module.py(1700): _call_impl"));
  EXPECT_FALSE(pipeline_range_of("forward_one_chunk"));
  for (const char* name : {"PP:(1F3;0B2)OVERLAP_F_B", "PP:1REDUCE_GRAD", "PP:1SEND_F3", "PP:1UNSHARD", "PP:F3", "PP:1F",
                           "PP:", "Forward Linear", "Forward", "forward_step_helper", "", "PP:1F99999999999"})
    EXPECT_FALSE(pipeline_range_of(name)) << name;
}

TEST(PipelineRange, TwoActionsAtOnce) {
  const std::pair both(PipelineRange{EventKind::forward, 1, 3}, PipelineRange{EventKind::backward, 0, 2});
  EXPECT_EQ(overlapped_ranges_of("PP:(1F3;0B2)OVERLAP_F_B"), both);
  EXPECT_EQ(overlapped_ranges_of("PP:(0B2;1F3)OVERLAP_F_B"), both);
  for (const char* name : {"PP:1F3", "PP:(1F3)OVERLAP_F_B", "PP:(1F3;0F2)OVERLAP_F_B", "PP:(1F3;0B2)", "PP:()OVERLAP_F_B",
                           "PP:(;)OVERLAP_F_B", "PP:)OVERLAP_F_B", ""})
    EXPECT_FALSE(overlapped_ranges_of(name)) << name;
}

// DualPipeV of torch.distributed.pipelining runs a forward on its own thread while autograd's launches a backward.
TEST(PipelineRanges, WorkOfTwoActionsAtOnceIsToldApartByItsThread) {
  for (const bool known : {true, false}) {
    Trace trace;
    trace.devices = {{.name = "cuda:0", .description = "CUDA device"}};
    trace.threads = {"autograd", "main"};
    trace.names = {known ? "PP:1F2" : "PP:1UNSHARD", "PP:(1F3;0B2)OVERLAP_F_B", "gemm"};
    trace.tags = {{.step = 0, .stage = 0, .microbatch = 0, .layer = -1, .replica = 0}};
    const auto at = [](int time) { return Nanoseconds{time}; };
    for (int range = 0; range < 2; ++range)
      trace.ranges.push_back(
          {.start = at(1000 * range), .duration = at(1000), .name = range, .tag = -1, .device = 0, .kind = EventKind::action});
    for (const auto& [time, thread] : {std::pair(100, 1), std::pair(1100, 1), std::pair(1200, 0)}) {
      trace.launches.push_back({static_cast<int>(trace.events.size()), thread, -1, at(time), at(time + 10), time});
      trace.events.push_back({.start = at(time + 50), .duration = at(20), .name = 2, .tag = 0, .kind = EventKind::kernel});
    }
    tag_pipeline_ranges(trace);
    const auto tag = [&](std::size_t event) { return trace.tags[as_index(trace.events[event].tag)]; };
    EXPECT_EQ(trace.events[1].kind, known ? EventKind::forward : EventKind::kernel);
    EXPECT_EQ(trace.events[2].kind, known ? EventKind::backward : EventKind::kernel);
    EXPECT_EQ(std::pair(tag(1).stage, tag(1).microbatch), known ? std::pair(1, 3) : std::pair(0, -1));
    EXPECT_EQ(std::pair(tag(2).stage, tag(2).microbatch), known ? std::pair(0, 2) : std::pair(0, -1));
  }
}

struct LoopedAction {
  bool backward = false;
  int chunk = 0;
  int microbatch = 0;
};

/// What a rank of Megatron-LM's interleaved 1F1B runs: so many forwards first, then one forward and one backward in turn.
std::vector<LoopedAction> interleaved(int ranks, int chunks, int microbatches, int rank) {
  std::vector<LoopedAction> forwards, order;
  for (int first = 0; first < microbatches; first += ranks)
    for (int chunk = 0; chunk < chunks; ++chunk)
      for (int i = first; i < std::min(first + ranks, microbatches); ++i) forwards.push_back({false, chunk, i});
  const std::size_t warm = std::min(forwards.size(), as_index(2 * (ranks - rank - 1) + (chunks - 1) * ranks));
  std::size_t next = 0;
  for (; next < warm; ++next) order.push_back(forwards[next]);
  for (const LoopedAction& done : forwards) {
    if (next < forwards.size()) order.push_back(forwards[next++]);
    order.push_back({true, chunks - 1 - done.chunk, done.microbatch});
  }
  return order;
}

TEST(VirtualStages, FollowFromTheWarmUps) {
  for (int ranks = 2; ranks <= 8; ++ranks) {
    for (int chunks = 1; chunks <= 4; ++chunks) {
      for (const int microbatches : {ranks, 2 * ranks, 3 * ranks, 3 * ranks + 1}) {
        SCOPED_TRACE(std::to_string(ranks) + "x" + std::to_string(chunks) + ", " + std::to_string(microbatches));
        std::map<int, WarmUp> devices;
        bool ended = true;
        for (int rank = 0; rank < ranks; ++rank) {
          const std::vector<LoopedAction> order = interleaved(ranks, chunks, microbatches, rank);
          const auto first = std::ranges::find(order, true, &LoopedAction::backward);
          // Without chunks, 1F1B runs a forward less per rank.
          const int before = chunks == 1 ? std::min(ranks - rank, microbatches) : static_cast<int>(first - order.begin());
          devices[ranks - rank] = {.before_backward = before, .forwards = chunks * microbatches, .stage = -1};
          ended = ended && before < chunks * microbatches;
        }
        const auto stages = virtual_stages_of(devices);
        ASSERT_EQ(stages.has_value(), chunks > 1 && ended);
        if (!stages) continue;
        EXPECT_EQ(std::tuple(stages->ranks, stages->chunks, stages->microbatches), std::tuple(ranks, chunks, microbatches));
        for (const auto& [device, place] : stages->place) EXPECT_EQ(place, ranks - device);
      }
    }
  }
  EXPECT_FALSE(virtual_stages_of({}));
}

TEST(PipelineRanges, GiveVirtualStagesOfMegatronsInterleavedSchedule) {
  const int ranks = 4, chunks = 2, microbatches = 8;
  std::vector<RankRecording> recordings;
  for (int rank = 0; rank < ranks; ++rank) {
    RankRecording recording;
    recording.rank = rank;
    Trace& trace = recording.trace;
    trace.devices.push_back({.name = "cuda:0", .description = "CUDA device"});
    trace.threads = {"main"};
    trace.names = {"megatron/core/pipeline_parallel/schedules.py(284): forward_step",
                   "megatron/core/pipeline_parallel/schedules.py(450): backward_step"};
    std::int64_t now = 0;
    for (const LoopedAction& one : interleaved(ranks, chunks, microbatches, rank)) {
      trace.names.push_back((one.backward ? "b" : "f") + std::to_string(one.chunk * ranks + rank) + "." + std::to_string(one.microbatch));
      trace.ranges.push_back(
          {.start = Nanoseconds{now}, .duration = Nanoseconds{900}, .name = one.backward ? 1 : 0, .device = 0, .kind = EventKind::action});
      const auto event = static_cast<int>(trace.events.size());
      trace.launches.push_back({event, 0, -1, Nanoseconds{now + 100}, Nanoseconds{now + 110}, event + 1});
      trace.events.push_back({.start = Nanoseconds{now + 200},
                              .duration = Nanoseconds{500},
                              .name = static_cast<std::int32_t>(trace.names.size()) - 1,
                              .kind = EventKind::kernel});
      now += 1000;
    }
    recordings.push_back(recording);
  }
  const MergedRanks merged = merge_ranks(recordings);
  for (const Event& event : merged.trace.events) {
    const Tag& tag = merged.trace.tags[as_index(event.tag)];
    EXPECT_EQ((event.kind == EventKind::backward ? "b" : "f") + std::to_string(tag.stage) + "." + std::to_string(tag.microbatch),
              merged.trace.names[as_index(event.name)]);
    EXPECT_EQ(tag.replica, 0);
  }
}

/// Ranks of 1F1B with `stages` stages and `microbatches`, two steps; kernels of the backward are launched by another thread.
std::vector<RankRecording> one_f_one_b(int stages, int replicas, int microbatches, bool named, std::mt19937& random) {
  std::vector<RankRecording> recordings;
  for (int rank = 0; rank < stages * replicas; ++rank) {
    const int stage = rank / replicas;
    RankRecording recording;
    recording.rank = rank;
    recording.file = "r" + std::to_string(rank);
    Trace& trace = recording.trace;
    trace.devices.push_back({.name = "cuda:0", .description = "CUDA device"});
    trace.threads = {"main", "autograd"};
    trace.started_utc_ns = 1'700'000'000'000'000'000;
    const auto name = [&](const std::string& text) {
      trace.names.push_back(text);
      return static_cast<std::int32_t>(trace.names.size()) - 1;
    };
    std::int64_t now = 0;
    for (int step = 0; step < 2; ++step) {
      const std::int64_t begin = now;
      std::vector<std::pair<bool, int>> order;  // backward?, micro-batch
      int forwards = 0;
      const int warm = std::min(microbatches, stages - stage);
      while (forwards < warm) order.emplace_back(false, forwards++);
      for (int backward = 0; backward < microbatches; ++backward) {
        order.emplace_back(true, backward);
        if (forwards < microbatches) order.emplace_back(false, forwards++);
      }
      for (const auto& [backward, microbatch] : order) {
        const std::string text = named      ? "PP:" + std::to_string(stage) + (backward ? "B" : "F") + std::to_string(microbatch)
                                 : backward ? "backward_step"
                                            : "megatron.core.schedules.forward_step";
        const std::int64_t length = 1000 + static_cast<std::int64_t>(random() % 500);
        trace.ranges.push_back(
            {.start = Nanoseconds{now}, .duration = Nanoseconds{length}, .name = name(text), .device = 0, .kind = EventKind::action});
        trace.events.push_back({.start = Nanoseconds{now + 900},
                                .duration = Nanoseconds{length - 400},
                                .name = name(std::string(backward ? "b" : "f") + std::to_string(microbatch)),
                                .kind = EventKind::kernel});
        const auto event = static_cast<int>(trace.events.size()) - 1;
        trace.launches.push_back({event, backward ? 1 : 0, -1, Nanoseconds{now + 100}, Nanoseconds{now + 110}, event + 1});
        now += length;
      }
      now += 1000;
      trace.ranges.push_back({.start = Nanoseconds{begin},
                              .duration = Nanoseconds{now - begin},
                              .name = name("ProfilerStep#"),
                              .device = 0,
                              .kind = EventKind::step});
      trace.steps.push_back({step, Nanoseconds{begin}, Nanoseconds{now}});
    }
    recordings.push_back(recording);
  }
  return recordings;
}

TEST(PipelineRanges, GiveStageAndMicrobatchOfAJob) {
  std::mt19937 random(7);
  for (const bool named : {true, false})
    for (int stages : {2, 3, 4})
      for (int replicas : {1, 2}) {
        const MergedRanks merged = merge_ranks(one_f_one_b(stages, replicas, 6, named, random));
        ASSERT_EQ(inconsistency(merged.trace), "");
        for (const Event& event : merged.trace.events) {
          const Tag& tag = merged.trace.tags[as_index(event.tag)];
          const std::string& name = merged.trace.names[as_index(event.name)];
          EXPECT_EQ(tag.stage, event.device / replicas) << named << stages << replicas;
          EXPECT_EQ(tag.replica, event.device % replicas);
          EXPECT_EQ(event.kind, name[0] == 'f' ? EventKind::forward : EventKind::backward);
          EXPECT_EQ(std::to_string(tag.microbatch), name.substr(1));
        }
      }
}

// As many forwards on all ranks: gradient accumulation, or GPipe. The stage is not known.
TEST(PipelineRanges, EqualWarmUpsSayNoStage) {
  std::mt19937 random(8);
  std::vector<RankRecording> recordings = one_f_one_b(1, 1, 4, false, random);
  recordings.push_back(recordings[0]);
  recordings[1].rank = 1;
  const MergedRanks merged = merge_ranks(recordings);
  for (const Event& event : merged.trace.events) {
    EXPECT_EQ(merged.trace.tags[as_index(event.tag)].stage, 0);
    EXPECT_EQ(merged.trace.tags[as_index(event.tag)].replica, event.device);
  }
}

}  // namespace
}  // namespace mptune::profiler
