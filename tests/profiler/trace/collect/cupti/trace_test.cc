#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profiler/base/index.h"
#include "tests/profiler/trace/collect/cupti/trace_checks.h"

namespace mptune::testing {
using namespace profiler;
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

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
  EXPECT_EQ(trace.events[0].kind, EventKind::kernel);
  EXPECT_EQ(trace.events[2].kind, EventKind::memset);
  ASSERT_EQ(trace.launches.size(), 3U);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(trace.launches[as_index(i)].event, i);
  EXPECT_EQ(trace.names[as_index(trace.launches[0].name)], "cudaLaunchKernel_v7000");
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
  EXPECT_EQ(event_named(trace, "copy host to device").lane, profiler::kStreamLane);
  EXPECT_EQ(event_named(trace, "short").lane, profiler::kStreamLane + 1);
}

TEST(CuptiTrace, AStreamOfNcclKernelsThatWaitIsNotTheBusiest) {
  HandBuffer buffer;
  buffer.add(kernel({10, 900, 1, 0, 1, 20}, "_Z22ncclDevKernel_SendRecv24ncclDevKernelArgsStorageILm4096EE"));
  buffer.add(kernel({20, 30, 2, 0, 1, 14}, "gemm"));
  const Trace trace = trace_of(buffer);
  EXPECT_EQ(event_named(trace, "gemm").lane, kComputeLane);
}

TEST(CuptiTrace, KernelsThatOverlapOnOneStreamLieOnTwoLanes) {
  HandBuffer buffer;
  for (std::uint32_t i = 0; i < 60; ++i) buffer.add(kernel({100 + i, 200 + i, i + 1}, "node"));
  const Trace trace = trace_of(buffer);
  EXPECT_EQ(trace.events.size(), 60U);
  EXPECT_EQ(trace.quality.dropped, 0);
}

TEST(CuptiTrace, CountsEventsWithoutAFreeLane) {
  HandBuffer buffer;
  for (std::uint32_t i = 0; i < 200; ++i) buffer.add(kernel({100 + i, 1000, i + 1}, "node"));
  const Trace trace = trace_of(buffer);
  EXPECT_EQ(trace.events.size(), 129U) << "the compute lane and the 128 lanes of streams";
  EXPECT_EQ(trace.quality.dropped, 71);
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

TEST(CuptiTrace, CopiesOfAGraphAreDistinguished) {
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
  const profiler::CuptiContext context{.tags = {{7, {forward, EventKind::forward}}, {8, {forward, EventKind::backward}}}};
  HandBuffer buffer;
  buffer.add(kernel({10, 20, 1}, "f")).add(external(1, 7)).add(kernel({20, 30, 2}, "b")).add(external(2, 8));
  buffer.add(memset_record({30, 40, 3})).add(external(3, 7)).add(kernel({40, 50, 4}, "none"));
  buffer.add(kernel({50, 60, 5}, "foreign")).add(external(5, 12345));
  buffer.add(kernel({60, 70, 6}, "ncclDevKernel_AllReduce")).add(external(6, 8));
  const Trace trace = trace_of(buffer, context);
  EXPECT_THAT(trace.tags, ElementsAre(forward));
  EXPECT_EQ(event_named(trace, "f").kind, EventKind::forward);
  EXPECT_EQ(event_named(trace, "b").kind, EventKind::backward);
  EXPECT_EQ(event_named(trace, "b").tag, 0);
  EXPECT_EQ(event_named(trace, "memset").kind, EventKind::memset);
  EXPECT_EQ(event_named(trace, "memset").tag, 0);
  EXPECT_EQ(event_named(trace, "none").kind, EventKind::kernel);
  EXPECT_EQ(event_named(trace, "ncclDevKernel_AllReduce").kind, EventKind::collective);
  EXPECT_EQ(trace.quality.untagged, 2);
}

TEST(CuptiTrace, CallsThatHadNotReturnedAreNoLaunches) {
  HandBuffer buffer;
  buffer.add(kernel({100, 110, 1}, "good")).add(launch(50, 1));
  buffer.add(kernel({200, 210, 2}, "of a call without times")).add(launch(0, 2));
  const Trace trace = profiler::make_trace(buffer.decode(), {});
  expect_sound(trace);
  EXPECT_EQ(trace.launches.size(), 1U);
  EXPECT_EQ(trace.quality.zero_stamped, 1);
}

TEST(CuptiTrace, CountsLossOfEveryKind) {
  HandBuffer buffer;
  buffer.add(kernel({0, 0, 1}, "no times")).add(launch(5, 1));
  buffer.add(kernel({100, 110, 2}, "no launch"));
  buffer.add(kernel({200, 210, 3}, "before its launch")).add(launch(50'201, 3));
  buffer.add(kernel({300, 310, 4}, "good")).add(launch(250, 4));
  buffer.add(kernel({420, 410, 5}, "backwards")).add(launch(320, 5));
  profiler::CuptiRecords records = buffer.decode();
  records.lost = 1;
  const Trace trace = profiler::make_trace(records, {.dropped = 40});
  expect_sound(trace);
  EXPECT_EQ(trace.quality, (TraceQuality{.dropped = 42, .untagged = 3, .zero_stamped = 1, .unmatched = 2}));
  EXPECT_THAT(names_of(trace, trace.events), ElementsAre("no launch", "before its launch", "good"));
  EXPECT_TRUE(trace.steps.empty()) << "only the host knows them";
}

// GPU times that are converted to the host's clock may be some microseconds early.
TEST(CuptiTrace, AKernelALittleBeforeItsLaunchIsStillLaunchedByIt) {
  HandBuffer buffer;
  buffer.add(kernel({100'000, 110'000, 1}, "k")).add(launch(109'000, 1)).add(kernel({200'000, 210'000, 2}, "far")).add(launch(260'000, 2));
  const Trace trace = trace_of(buffer);
  ASSERT_EQ(trace.launches.size(), 2U);
  EXPECT_EQ(trace.launches[0].event, 0);
  EXPECT_EQ(trace.launches[1].event, 1) << "unreliable, but no call that started nothing";
  EXPECT_EQ(trace.quality, (TraceQuality{.untagged = 2, .unmatched = 1}));
}

TEST(CuptiTrace, TimesOfAnotherClockAreLeftOutAndCounted) {
  const profiler::CuptiContext context{.origin = std::chrono::seconds(1000), .ended = std::chrono::seconds(1010)};
  const std::uint64_t second = 1'000'000'000, in = 1005 * second;
  HandBuffer buffer;
  buffer.add(kernel({in, in + 30, 1, 0, 1, 7}, "in")).add(launch(in - 10, 1)).add(marker(in, 1, "in", CUPTI_ACTIVITY_FLAG_MARKER_START));
  buffer.add(overhead(in, in + 9, CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING));
  buffer.add(copy({999 * second, in, 2}, CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, 1)).add(memset_record({in, 1011 * second, 3}));
  EXPECT_EQ(trace_of(buffer, context).events.size(), 3U) << "both ends have a second to spare";
  std::uint32_t number = 10;
  for (const std::uint64_t out : {second, 998 * second, 1012 * second, std::uint64_t{1} << 63}) {
    ++number;
    buffer.add(kernel({out, out + second, number, 0, 1, 9}, "out")).add(copy({out, out + 1, number}, CUPTI_ACTIVITY_MEMCPY_KIND_DTOD, 1));
    buffer.add(memset_record({out, out + 1, number})).add(launch(out, number));
    buffer.add(overhead(out, out + 1, CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING));
    buffer.add(overhead(out, out + 1, CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH));
    buffer.add(marker(out, number, "out", CUPTI_ACTIVITY_FLAG_MARKER_INSTANTANEOUS));
  }
  const Trace trace = trace_of(buffer, context);
  EXPECT_EQ(trace.events.size(), 3U);
  EXPECT_EQ(trace.launches.size(), 2U);
  EXPECT_THAT(names_of(trace, trace.ranges), ElementsAre("in"));
  EXPECT_EQ(event_named(trace, "in").lane, kComputeLane) << "times that count for nothing make no stream the busiest";
  EXPECT_EQ(trace.quality.dropped, 4 * 7);
}

TEST(CuptiTrace, WithoutAnEndNothingIsTooLate) {
  HandBuffer buffer;
  buffer.add(kernel({5'000'000'000'000, 5'000'000'000'001, 1}, "k"));
  EXPECT_EQ(trace_of(buffer, {.origin = std::chrono::seconds(1)}).quality.dropped, 0);
}

TEST(CuptiTrace, CallsThatStartNothingAreKept) {
  HandBuffer buffer;
  buffer.add(call(10, 90, 1, CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020)).add(kernel({20, 30, 2}, "k")).add(launch(12, 2));
  buffer.add(overhead(40, 60, CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING));
  const Trace trace = trace_of(buffer);
  ASSERT_EQ(trace.launches.size(), 3U);
  const auto called = [&](std::size_t i) { return trace.names[as_index(trace.launches[i].name)]; };
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
  EXPECT_EQ(trace.names[as_index(trace.launches[0].name)], "cudaLaunchKernel_v7000");
}

TEST(CuptiTrace, AGraphLaunchNamesTheFirstOfItsKernels) {
  HandBuffer buffer;
  buffer.add(kernel({60, 70, 1}, "second")).add(kernel({40, 50, 1}, "first")).add(launch(10, 1));
  const Trace trace = trace_of(buffer);
  ASSERT_EQ(trace.launches.size(), 1U);
  EXPECT_EQ(name_of(trace, trace.events[as_index(trace.launches[0].event)]), "first");
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

// Two threads use stream 7 at one time: the call of a2 began before that of the event's record, but came to the stream after it.
TEST(CuptiTrace, WorkThatStillRanWasNotWaitedFor) {
  for (const auto& [end, producer] : {std::pair(170'000U, "a2"), {170'001U, "a1"}}) {
    HandBuffer buffer;
    buffer.add(kernel({100, 110, 1, 0, 1, 7}, "a1")).add(kernel({110, end, 2, 0, 1, 7}, "a2")).add(event_record(3, 50, 1, 7));
    buffer.add(stream_wait(4, 50, 2, 9)).add(kernel({120'000, 130'000, 5, 1, 2, 9}, "b"));
    EXPECT_THAT(edges_of(trace_of(buffer), EdgeKind::event_wait), UnorderedElementsAre(std::pair(producer, "b"))) << end;
  }
}

TEST(CuptiTrace, WaitsPassThroughStreamsWithoutWork) {
  HandBuffer buffer;
  buffer.add(kernel({100, 110, 1, 0, 1, 7}, "a")).add(event_record(2, 50, 1, 7));
  buffer.add(stream_wait(3, 50, 1, 8)).add(event_record(4, 51, 1, 8));
  buffer.add(stream_wait(5, 51, 1, 9)).add(stream_wait(6, 51, 1, 9)).add(kernel({120, 130, 7, 0, 1, 9}, "c"));
  buffer.add(kernel({130, 140, 8, 0, 1, 9}, "later"));
  EXPECT_THAT(edges_of(trace_of(buffer), EdgeKind::event_wait), UnorderedElementsAre(std::pair("a", "c")));
}

TEST(CuptiTrace, RecordingAnEventAgainReplacesIt) {
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

TEST(CuptiTrace, RecordersWorkIsOnTheDeviceThatItDelays) {
  HandBuffer buffer;
  buffer.add(kernel({10, 20, 1, 0}, "k")).add(launch(5, 1, 11)).add(kernel({10, 20, 2, 1, 2}, "other")).add(launch(5, 2, 12));
  buffer.add(overhead(15, 25, CUPTI_ACTIVITY_OVERHEAD_CUPTI_INSTRUMENTATION, 12));
  buffer.add(overhead(16, 26, CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH, 99));
  const Trace trace = trace_of(buffer);
  ASSERT_EQ(trace.events.size(), 3U) << "a thread that feeds no device keeps none waiting";
  const Event& recorder = event_named(trace, "recorder: instrumentation");
  EXPECT_EQ(recorder.kind, EventKind::profiler);
  EXPECT_EQ(recorder.device, event_named(trace, "other").device);
  EXPECT_NE(recorder.lane, kComputeLane);
  EXPECT_EQ(trace.quality.untagged, 2);
}

}  // namespace
}  // namespace mptune::testing
