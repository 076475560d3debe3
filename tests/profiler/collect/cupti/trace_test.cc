#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <random>
#include <set>

#include "mptune/profiler/store/store.h"
#include "mptune/tests/profiler/collect/cupti/hand_buffer.h"

namespace mptune::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

const std::string& name_of(const Trace& trace, const Event& event) {
  return trace.names.at(static_cast<std::size_t>(event.name));
}

std::vector<std::string> names_of(const Trace& trace, const std::vector<Event>& events) {
  std::vector<std::string> names;
  for (const Event& event : events) names.push_back(name_of(trace, event));
  return names;
}

const Event& event_named(const Trace& trace, const std::string& name) {
  for (const Event& event : trace.events)
    if (name_of(trace, event) == name) return event;
  throw std::out_of_range(name);
}

std::set<std::pair<std::string, std::string>> edges_of(const Trace& trace, EdgeKind kind) {
  std::set<std::pair<std::string, std::string>> edges;
  for (const Edge& edge : trace.edges) {
    if (edge.kind == kind)
      edges.emplace(name_of(trace, trace.events.at(static_cast<std::size_t>(edge.producer))),
                    name_of(trace, trace.events.at(static_cast<std::size_t>(edge.consumer))));
  }
  return edges;
}

/// What every reader of a trace relies on.
void expect_sound(const Trace& trace) {
  std::map<std::pair<int, int>, Nanoseconds> busy_until;
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const Event& event = trace.events[i];
    if (i > 0) {
      EXPECT_LE(trace.events[i - 1].start, event.start);
    }
    ASSERT_LT(static_cast<std::size_t>(event.device), trace.devices.size());
    ASSERT_LT(static_cast<std::size_t>(event.name), trace.names.size());
    EXPECT_GE(event.duration.count(), 0);
    const auto [until, first] = busy_until.try_emplace({event.device, event.lane}, event.end());
    if (!first) {
      EXPECT_LE(until->second, event.start) << name_of(trace, event) << " on lane " << int{event.lane};
    }
    until->second = event.end();
    if (event.what == What::copy) {
      ASSERT_LT(static_cast<std::size_t>(event.detail), trace.copies.size());
    }
    if (event.what == What::kernel) {
      ASSERT_LT(static_cast<std::size_t>(event.detail), trace.kernels.size());
    }
  }
  std::set<std::int64_t> correlations;
  for (const Launch& launch : trace.launches) {
    EXPECT_GT(launch.correlation, 0);
    EXPECT_TRUE(correlations.insert(launch.correlation).second);
    ASSERT_LT(launch.event, static_cast<int>(trace.events.size()));
    ASSERT_LT(static_cast<std::size_t>(launch.thread), trace.threads.size());
    if (launch.event >= 0) {
      EXPECT_LE(launch.start, trace.events[static_cast<std::size_t>(launch.event)].start);
    }
  }
}

Trace trace_of(HandBuffer& buffer, const CuptiContext& context = {}) {
  Trace trace = make_trace(buffer.decode(), context);
  expect_sound(trace);
  return trace;
}

TEST(CuptiTrace, OnlyMangledNamesAreDemangled) {
  HandBuffer buffer;
  buffer.add(kernel({1, 2, 1}, "f")).add(kernel({3, 4, 2}, "_Z1fi")).add(kernel({5, 6, 3}, nullptr));
  const Trace trace = trace_of(buffer);
  EXPECT_THAT(names_of(trace, trace.events), ElementsAre("f", "f(int)", "kernel"));
}

TEST(CuptiTrace, SortsTheWorkOfADeviceAndGivesEachItsLaunch) {
  HandBuffer buffer;
  buffer.add(kernel({200, 240, 2}, "_Z4gemmPf")).add(launch(110, 2)).add(kernel({150, 190, 1}, "_Z4gemmPf")).add(launch(100, 1));
  buffer.add(memset_record({250, 260, 3})).add(call(120, 124, 3, CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020));
  const Trace trace = trace_of(buffer, {.origin = Nanoseconds{100}});
  EXPECT_THAT(names_of(trace, trace.events), ElementsAre("gemm(float*)", "gemm(float*)", "memset"));
  EXPECT_EQ(trace.events[0].start.count(), 50);
  EXPECT_EQ(trace.events[0].duration.count(), 40);
  EXPECT_EQ(trace.events[0].what, What::kernel);
  EXPECT_EQ(trace.events[2].what, What::memset);
  ASSERT_EQ(trace.launches.size(), 3U);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(trace.launches[static_cast<std::size_t>(i)].event, i);
  EXPECT_EQ(trace.names[static_cast<std::size_t>(trace.launches[0].name)], "cudaLaunchKernel_v7000");
  EXPECT_EQ(trace.launches[0].start.count(), 0);
  EXPECT_THAT(trace.threads, ElementsAre("thread 11"));
  ASSERT_EQ(trace.devices.size(), 1U);
  EXPECT_EQ(trace.devices[0].name, "cuda:0");
  EXPECT_EQ(trace.quality, (TraceQuality{.untagged = 3}));
}

TEST(CuptiTrace, BusiestStreamComputesAndOthersHaveLanesOfTheirOwn) {
  HandBuffer buffer;
  buffer.add(copy({10, 50, 1, 0, 1, 20}, CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, 64));
  buffer.add(kernel({20, 30, 2, 0, 1, 14}, "short")).add(kernel({25, 90, 3, 0, 1, 7}, "long"));
  const Trace trace = trace_of(buffer);
  EXPECT_EQ(event_named(trace, "long").lane, kComputeLane);
  EXPECT_EQ(event_named(trace, "copy host to device").lane, kStreamLane);
  EXPECT_EQ(event_named(trace, "short").lane, kStreamLane + 1);
}

TEST(CuptiTrace, KernelsThatOverlapOnOneStreamLieOnTwoLanes) {
  HandBuffer buffer;
  for (std::uint32_t i = 0; i < 60; ++i) buffer.add(kernel({100 + i, 200 + i, i + 1}, "node"));
  const Trace trace = trace_of(buffer);
  EXPECT_EQ(trace.events.size(), 60U);
  EXPECT_EQ(trace.quality.dropped, 0);
}

TEST(CuptiTrace, CountsWhatFindsNoLaneAtAll) {
  HandBuffer buffer;
  for (std::uint32_t i = 0; i < 200; ++i) buffer.add(kernel({100 + i, 1000, i + 1}, "node"));
  const Trace trace = trace_of(buffer);
  EXPECT_EQ(trace.events.size(), 129U) << "the compute lane and the 128 lanes of streams";
  EXPECT_EQ(trace.quality.dropped, 71);
}

TEST(CuptiTrace, PlacesPutStreamsOnTheDevicesOfTheTrace) {
  const CuptiContext context{.devices = {{"cuda:0/1of2", "", 0, 0}, {"cuda:0/2of2", "", 0, 0}},
                             .places = {{.device = 0, .context = 3, .stream = 8, .trace_device = 0, .lane = kComputeLane},
                                        {.device = 0, .context = 3, .stream = 9, .trace_device = 0, .lane = copy_lane(1)},
                                        {.device = 0, .context = 4, .stream = 8, .trace_device = 1, .lane = kComputeLane}}};
  HandBuffer buffer;
  buffer.add(kernel({10, 20, 1, 0, 3, 8}, "first")).add(kernel({12, 22, 2, 0, 4, 8}, "second"));
  buffer.add(copy({20, 30, 3, 0, 3, 9}, CUPTI_ACTIVITY_MEMCPY_KIND_DTOD, 256)).add(kernel({40, 50, 4, 0, 4, 77}, "elsewhere"));
  const Trace trace = trace_of(buffer, context);
  EXPECT_EQ(trace.devices, context.devices);
  EXPECT_EQ(event_named(trace, "first").device, 0);
  EXPECT_EQ(event_named(trace, "second").device, 1);
  EXPECT_EQ(event_named(trace, "second").lane, kComputeLane);
  const Event& between = event_named(trace, "copy within device");
  EXPECT_EQ(between.lane, copy_lane(1));
  EXPECT_EQ(trace.copies.at(static_cast<std::size_t>(between.detail)), (Copy{256, 0, 1})) << "between two parts of one GPU";
  EXPECT_EQ(event_named(trace, "elsewhere").device, 1) << "by its context";
  EXPECT_EQ(event_named(trace, "elsewhere").lane, kStreamLane);
}

TEST(CuptiTrace, DevicesAreFoundByTheirNames) {
  HandBuffer buffer;
  CUpti_ActivityDevice5 device{};
  device.kind = CUPTI_ACTIVITY_KIND_DEVICE;
  device.id = 4;
  device.name = "NVIDIA H200";
  device.numMultiprocessors = 132;
  device.globalMemorySize = 1000;
  buffer.add(kernel({10, 20, 1, 1}, "b")).add(kernel({11, 20, 2, 4, 2}, "new")).add(device);
  const Trace trace = trace_of(buffer, {.devices = {{"cpu:0", "", 0, 0}, {"cuda:1", "", 0, 0}}});
  EXPECT_EQ(event_named(trace, "b").device, 1);
  EXPECT_EQ(event_named(trace, "new").device, 2);
  ASSERT_EQ(trace.devices.size(), 3U);
  EXPECT_EQ(trace.devices[2], (TraceDevice{"cuda:4", "NVIDIA H200", 132, 1000}));
}

TEST(CuptiTrace, PeerCopiesCountOnceAndNameBothEnds) {
  HandBuffer buffer;
  buffer.add(kernel({5, 9, 1, 0}, "a")).add(kernel({5, 9, 2, 1, 2}, "b"));
  buffer.add(copy({10, 20, 3}, CUPTI_ACTIVITY_MEMCPY_KIND_PTOP, 64)).add(peer_copy({10, 20, 3}, 0, 1, 64));
  buffer.add(peer_copy({30, 40, 4, 1, 2}, 1, 0, 32));
  buffer.add(copy({50, 60, 5}, CUPTI_ACTIVITY_MEMCPY_KIND_PTOP, 16));
  const Trace trace = trace_of(buffer);
  ASSERT_EQ(trace.copies.size(), 3U);
  EXPECT_THAT(trace.copies, UnorderedElementsAre(Copy{64, 0, 1}, Copy{32, 1, 0}, Copy{16, 0, -1}));
  EXPECT_EQ(trace.events.size(), 5U);
}

TEST(CuptiTrace, CopiesOfAGraphAreNotTakenForOneAnother) {
  CUpti_ActivityMemcpy6 upload = copy({10, 20, 3}, CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, 64);
  upload.graphNodeId = 1;
  CUpti_ActivityMemcpyPtoP4 peer = peer_copy({20, 30, 3}, 0, 1, 64);
  peer.graphNodeId = 2;
  HandBuffer buffer;
  EXPECT_EQ(trace_of(buffer.add(upload).add(peer)).copies.size(), 2U);
}

TEST(CuptiTrace, HostCopiesHaveOneEnd) {
  HandBuffer buffer;
  buffer.add(copy({1, 2, 1}, CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, 1)).add(copy({3, 4, 2}, CUPTI_ACTIVITY_MEMCPY_KIND_DTOH, 2));
  buffer.add(copy({5, 6, 3}, CUPTI_ACTIVITY_MEMCPY_KIND_DTOD, 3));
  EXPECT_THAT(trace_of(buffer).copies, ElementsAre(Copy{1, -1, 0}, Copy{2, 0, -1}, Copy{3, 0, 0}));
}

TEST(CuptiTrace, TagsReachTheWorkOfTheirCalls) {
  const Tag forward{0, 1, 2, 3, 0};
  const CuptiContext context{.tags = {{7, {forward, What::forward}}, {8, {forward, What::backward}}}};
  HandBuffer buffer;
  buffer.add(kernel({10, 20, 1}, "f")).add(external(1, 7)).add(kernel({20, 30, 2}, "b")).add(external(2, 8));
  buffer.add(memset_record({30, 40, 3})).add(external(3, 7)).add(kernel({40, 50, 4}, "none"));
  buffer.add(kernel({50, 60, 5}, "foreign")).add(external(5, 12345));
  buffer.add(kernel({60, 70, 6}, "ncclDevKernel_AllReduce")).add(external(6, 8));
  const Trace trace = trace_of(buffer, context);
  EXPECT_THAT(trace.tags, ElementsAre(forward));
  EXPECT_EQ(event_named(trace, "f").what, What::forward);
  EXPECT_EQ(event_named(trace, "b").what, What::backward);
  EXPECT_EQ(event_named(trace, "b").tag, 0);
  EXPECT_EQ(event_named(trace, "memset").what, What::memset);
  EXPECT_EQ(event_named(trace, "memset").tag, 0);
  EXPECT_EQ(event_named(trace, "none").what, What::kernel);
  EXPECT_EQ(event_named(trace, "ncclDevKernel_AllReduce").what, What::collective);
  EXPECT_EQ(trace.quality.untagged, 2);
}

TEST(CuptiTrace, CountsLossOfEveryKind) {
  HandBuffer buffer;
  buffer.add(kernel({0, 0, 1}, "no times")).add(launch(5, 1));
  buffer.add(kernel({100, 110, 2}, "no launch"));
  buffer.add(kernel({200, 210, 3}, "before its launch")).add(launch(205, 3));
  buffer.add(kernel({300, 310, 4}, "good")).add(launch(250, 4));
  buffer.add(kernel({420, 410, 5}, "backwards")).add(launch(320, 5));
  CuptiRecords records = buffer.decode();
  records.broken = 1;
  const CuptiContext context{.steps = {{0, Nanoseconds{150}, Nanoseconds{250}}, {1, Nanoseconds{290}, Nanoseconds{305}}}, .dropped = 40};
  const Trace trace = make_trace(records, context);
  expect_sound(trace);
  EXPECT_EQ(trace.quality, (TraceQuality{.dropped = 42, .untagged = 3, .out_of_window = 2, .zero_stamped = 1, .unmatched = 2}));
  EXPECT_THAT(names_of(trace, trace.events), ElementsAre("no launch", "before its launch", "good"));
  EXPECT_EQ(trace.steps.size(), 2U);
}

TEST(CuptiTrace, CallsThatStartNothingAreKept) {
  HandBuffer buffer;
  buffer.add(call(10, 90, 1, CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020)).add(kernel({20, 30, 2}, "k")).add(launch(12, 2));
  buffer.add(overhead(40, 60, CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING));
  const Trace trace = trace_of(buffer);
  ASSERT_EQ(trace.launches.size(), 3U);
  const auto called = [&](std::size_t i) { return trace.names[static_cast<std::size_t>(trace.launches[i].name)]; };
  EXPECT_EQ(trace.launches[0].event, -1);
  EXPECT_EQ(called(0), "cudaStreamSynchronize_v3020");
  EXPECT_EQ(trace.launches[1].event, 0);
  EXPECT_EQ(trace.launches[2].event, -1);
  EXPECT_EQ(called(2), "lazy function loading");
}

TEST(CuptiTrace, RuntimeCallStandsForTheDriverCallWithinIt) {
  HandBuffer buffer;
  buffer.add(call(12, 15, 1, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, 11, CUPTI_ACTIVITY_KIND_DRIVER)).add(call(10, 20, 1, 211));
  buffer.add(kernel({30, 40, 1}, "k"));
  const Trace trace = trace_of(buffer);
  ASSERT_EQ(trace.launches.size(), 1U);
  EXPECT_EQ(trace.launches[0].end.count(), 20);
  EXPECT_EQ(trace.names[static_cast<std::size_t>(trace.launches[0].name)], "cudaLaunchKernel_v7000");
}

TEST(CuptiTrace, AGraphLaunchNamesTheFirstOfItsKernels) {
  HandBuffer buffer;
  buffer.add(kernel({60, 70, 1}, "second")).add(kernel({40, 50, 1}, "first")).add(launch(10, 1));
  const Trace trace = trace_of(buffer);
  ASSERT_EQ(trace.launches.size(), 1U);
  EXPECT_EQ(name_of(trace, trace.events[static_cast<std::size_t>(trace.launches[0].event)]), "first");
  EXPECT_EQ(trace.quality.unmatched, 0);
}

TEST(CuptiTrace, WaitsJoinTheLastWorkBeforeAndTheFirstAfter) {
  HandBuffer buffer;
  buffer.add(kernel({100, 110, 1, 0, 1, 7}, "a1")).add(kernel({110, 120, 2, 0, 1, 7}, "a2")).add(event_record(3, 50, 1, 7));
  buffer.add(kernel({120, 130, 4, 0, 1, 7}, "a3"));
  buffer.add(kernel({100, 105, 5, 1, 2, 9}, "b1")).add(stream_wait(6, 50, 2, 9)).add(kernel({125, 140, 7, 1, 2, 9}, "b2"));
  buffer.add(kernel({140, 150, 8, 1, 2, 9}, "b3"));
  const Trace trace = trace_of(buffer);
  EXPECT_THAT(edges_of(trace, EdgeKind::event_wait), UnorderedElementsAre(std::pair("a2", "b2")));
  EXPECT_THAT(edges_of(trace, EdgeKind::order),
              UnorderedElementsAre(std::pair("a1", "a2"), std::pair("a2", "a3"), std::pair("b1", "b2"), std::pair("b2", "b3")));
}

TEST(CuptiTrace, WaitsPassThroughStreamsWithoutWork) {
  HandBuffer buffer;
  buffer.add(kernel({100, 110, 1, 0, 1, 7}, "a")).add(event_record(2, 50, 1, 7));
  buffer.add(stream_wait(3, 50, 1, 8)).add(event_record(4, 51, 1, 8));
  buffer.add(stream_wait(5, 51, 1, 9)).add(stream_wait(6, 51, 1, 9)).add(kernel({120, 130, 7, 0, 1, 9}, "c"));
  buffer.add(kernel({130, 140, 8, 0, 1, 9}, "later"));
  EXPECT_THAT(edges_of(trace_of(buffer), EdgeKind::event_wait), UnorderedElementsAre(std::pair("a", "c")));
}

TEST(CuptiTrace, AnEventRecordedAgainIsAnother) {
  HandBuffer buffer;
  buffer.add(kernel({10, 20, 1, 0, 1, 7}, "a1")).add(event_record(2, 50, 1, 7)).add(kernel({20, 30, 3, 0, 1, 7}, "a2"));
  buffer.add(event_record(4, 51, 1, 7)).add(stream_wait(5, 51, 1, 8)).add(kernel({40, 50, 6, 0, 1, 8}, "b"));
  buffer.add(stream_wait(7, 999, 1, 8)).add(kernel({50, 60, 8, 0, 1, 8}, "waits for an event before the recording"));
  EXPECT_THAT(edges_of(trace_of(buffer), EdgeKind::event_wait), UnorderedElementsAre(std::pair("a2", "b")));
}

TEST(CuptiTrace, AWaitOnTheSameStreamIsOrderAlone) {
  HandBuffer buffer;
  buffer.add(kernel({10, 20, 1}, "a")).add(event_record(2, 50, 1, 7)).add(stream_wait(3, 50, 1, 7)).add(kernel({20, 30, 4}, "b"));
  const Trace trace = trace_of(buffer);
  EXPECT_THAT(edges_of(trace, EdgeKind::event_wait), IsEmpty());
  EXPECT_THAT(edges_of(trace, EdgeKind::order), UnorderedElementsAre(std::pair("a", "b")));
}

TEST(CuptiTrace, RecordersWorkLiesBesideTheDeviceItKeepsWaiting) {
  HandBuffer buffer;
  buffer.add(kernel({10, 20, 1, 0}, "k")).add(launch(5, 1, 11)).add(kernel({10, 20, 2, 1, 2}, "other")).add(launch(5, 2, 12));
  buffer.add(overhead(15, 25, CUPTI_ACTIVITY_OVERHEAD_CUPTI_INSTRUMENTATION, 12));
  buffer.add(overhead(16, 26, CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH, 99));
  const Trace trace = trace_of(buffer);
  ASSERT_EQ(trace.events.size(), 3U) << "a thread that feeds no device keeps none waiting";
  const Event& recorder = event_named(trace, "recorder: instrumentation");
  EXPECT_EQ(recorder.what, What::profiler);
  EXPECT_EQ(recorder.device, event_named(trace, "other").device);
  EXPECT_NE(recorder.lane, kComputeLane);
  EXPECT_EQ(trace.quality.untagged, 2);
}

TEST(CuptiTrace, MarkersBecomeRanges) {
  HandBuffer buffer;
  buffer.add(kernel({10, 20, 1}, "k")).add(launch(5, 1, 11));
  buffer.add(marker(30, 1, nullptr, CUPTI_ACTIVITY_FLAG_MARKER_END)).add(marker(2, 1, "outer", CUPTI_ACTIVITY_FLAG_MARKER_START));
  buffer.add(marker(4, 2, "open", CUPTI_ACTIVITY_FLAG_MARKER_START))
      .add(marker(6, 3, "mark", CUPTI_ACTIVITY_FLAG_MARKER_INSTANTANEOUS, 50));
  const Trace trace = trace_of(buffer);
  EXPECT_THAT(names_of(trace, trace.ranges), ElementsAre("outer", "open", "mark"));
  EXPECT_EQ(trace.ranges[0].duration.count(), 28);
  EXPECT_EQ(trace.ranges[0].device, 0);
  EXPECT_EQ(trace.ranges[0].what, What::action);
  EXPECT_EQ(trace.ranges[1].end().count(), 30);
  EXPECT_EQ(trace.ranges[2].duration.count(), 0);
  EXPECT_EQ(trace.ranges[2].device, -1);
}

TEST(CuptiTrace, RangesSayTheirDomainAndPayload) {
  HandBuffer buffer;
  const auto start = CUPTI_ACTIVITY_FLAG_MARKER_START;
  buffer.add(marker_data(1, CUPTI_METRIC_VALUE_KIND_INT64, {.metricValueInt64 = -7})).add(marker(1, 1, "step", start));
  buffer.add(marker(2, 2, "all reduce", start, 12, "NCCL"))
      .add(marker_data(2, CUPTI_METRIC_VALUE_KIND_UINT64, {.metricValueUint64 = 1ULL << 63}));
  buffer.add(marker(3, 3, "loss", start)).add(marker_data(3, CUPTI_METRIC_VALUE_KIND_DOUBLE, {.metricValueDouble = 0.25}));
  buffer.add(marker(4, 4, "red", start)).add(marker_data(4, CUPTI_METRIC_VALUE_KIND_DOUBLE, {.metricValueDouble = 0}));
  buffer.add(marker(5, 5, nullptr, start, 11, "unnamed"));
  const Trace trace = trace_of(buffer);
  EXPECT_THAT(names_of(trace, trace.ranges),
              ElementsAre("step [-7]", "NCCL:all reduce [9223372036854775808]", "loss [0.25]", "red", "unnamed:"));
}

TEST(CuptiTrace, RangesCrossEachOtherAndEndOnOtherThreads) {
  HandBuffer buffer;
  buffer.add(kernel({10, 90, 1}, "k")).add(launch(5, 1, 11));
  buffer.add(marker(1, 1, "first", CUPTI_ACTIVITY_FLAG_MARKER_START, 11))
      .add(marker(20, 2, "second", CUPTI_ACTIVITY_FLAG_MARKER_START, 12));
  buffer.add(marker(30, 1, nullptr, CUPTI_ACTIVITY_FLAG_MARKER_END, 12)).add(marker(40, 3, "open", CUPTI_ACTIVITY_FLAG_MARKER_START, 11));
  buffer.add(marker(50, 2, nullptr, CUPTI_ACTIVITY_FLAG_MARKER_END, 11));
  const Trace trace = trace_of(buffer);
  ASSERT_THAT(names_of(trace, trace.ranges), ElementsAre("first", "second", "open"));
  EXPECT_EQ(trace.ranges[0].end().count(), 30);
  EXPECT_EQ(trace.ranges[0].device, 0);
  EXPECT_EQ(trace.ranges[1].end().count(), 50);
  EXPECT_EQ(trace.ranges[1].device, -1) << "its thread started no work";
  EXPECT_EQ(trace.ranges[2].end().count(), 90) << "with the last work";
}

/// Random work on two devices, several streams each, with everything that can go wrong now and then.
HandBuffer random_buffer(std::mt19937& random, int count) {
  HandBuffer buffer;
  const auto upto = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  std::uint64_t time = 1000;
  for (std::uint32_t i = 1; i <= static_cast<std::uint32_t>(count); ++i) {
    time += upto(20);
    const std::uint32_t device = upto(2);
    Ran ran{time + upto(30), 0, i, device, device + 1, 7 + upto(4)};
    ran.end = ran.start + upto(60);
    if (upto(50) == 0) ran.start = ran.end = 0;
    if (upto(20) != 0) buffer.add(launch(time, i, 11 + upto(3)));
    const std::uint32_t what = upto(8);
    if (what == 0) buffer.add(copy(ran, CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, 8));
    if (what == 1) buffer.add(peer_copy(ran, device, 1 - device, 8));
    if (what == 2) buffer.add(memset_record(ran));
    if (what == 3) buffer.add(event_record(i, i / 2 + 1, device + 1, ran.stream));
    if (what == 4) buffer.add(stream_wait(i, i / 2, device + 1, ran.stream));
    if (what >= 5) buffer.add(kernel(ran, "k"));
  }
  return buffer;
}

TEST(CuptiTrace, AnyRecordsMakeASoundTraceThatTheStoreGivesBack) {
  std::mt19937 random(20);
  const auto path = std::filesystem::temp_directory_path() / ("mptune-cupti-" + std::to_string(getpid()) + ".sqlite");
  for (int round = 0; round < 20; ++round) {
    HandBuffer buffer = random_buffer(random, 300);
    const Trace trace = trace_of(buffer, {.origin = Nanoseconds{1000}, .started_utc_ns = 1'700'000'000'000'000'000});
    EXPECT_GT(trace.events.size(), 150U);
    write_recording({.trace = trace}, path.string(), true);
    const Trace read = read_recording(path.string()).trace.value();
    EXPECT_EQ(read.events, trace.events);
    EXPECT_EQ(read.launches, trace.launches);
    EXPECT_EQ(read.edges, trace.edges);
    EXPECT_EQ(read.quality, trace.quality);
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace mptune::testing
