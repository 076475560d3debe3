#include "tuner/worker/program/rank_gpus.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/trace/values/trace_builder.h"

namespace mptune::tuner {
namespace {

int add(Trace& trace, const std::string& name, EventKind kind, int device, int lane, int start, int end, const Tag& tag) {
  profiler::TraceBuilder builder(trace);
  Event event{Nanoseconds{start}, Nanoseconds{end - start}, builder.name(name)};
  event.kind = kind;
  event.device = static_cast<std::int16_t>(device);
  event.lane = static_cast<std::uint8_t>(lane);
  if (tag != Tag{}) event.tag = builder.tag(tag);
  trace.events.push_back(event);
  return static_cast<int>(trace.events.size()) - 1;
}

int add_copy(Trace& trace, const Copy& copy, int device, int lane, int start, int end, const Tag& tag) {
  const int index = add(trace, "copy activation", EventKind::copy, device, lane, start, end, tag);
  trace.events.back().detail = static_cast<int>(trace.copies.size());
  trace.copies.push_back(copy);
  return index;
}

void launch(Trace& trace, int event, int start) {
  profiler::TraceBuilder builder(trace);
  trace.launches.push_back({event, builder.thread("stage worker"), builder.name("cudaLaunchKernel"), Nanoseconds{start},
                            Nanoseconds{start + 2}, static_cast<std::int64_t>(trace.launches.size()) + 1});
}

const Tag kFront{0, 0, 0, -1, 0}, kBack{0, 1, 0, -1, 0};
constexpr const char* kSendKernel = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)";

/// A forward on each of two ranks' GPUs, as their hosts saw it on the clock of rank 0, and the message between them:
///
///     0@cuda:0  F at 1000 - 1100, launched within
///     message                     1100 - 1500
///     1@cuda:0                                 F at 1500 - 1600
Trace host_of_two() {
  Trace host;
  host.devices = {{"0@cuda:0", "a GPU", 132, 80}, {"1@cuda:0", "a GPU", 132, 80}};
  const int front = add(host, "forward a", EventKind::forward, 0, 0, 1000, 1100, {0, 0, 0, 0, 0});
  const int message = add_copy(host, {64, 0, 1}, 0, copy_lane(1), 1100, 1500, {0, 1, 0, -1, -1});
  const int back = add(host, "forward b", EventKind::forward, 1, 0, 1500, 1600, {0, 1, 0, 1, 0});
  host.edges = {{front, message, EdgeKind::data}, {message, back, EdgeKind::data}};
  host.steps = {{0, Nanoseconds{900}, Nanoseconds{3000}}};
  return host;
}

/// What the GPU of a rank recorded, on its own clock: a kernel, and NCCL's, which waits.
RankGpus gpus_of(bool first) {
  RankGpus gpus;
  Trace& trace = gpus.trace.emplace();
  trace.devices = {{"cuda:0", "a GPU", 132, 80}};
  const Tag tag = first ? kFront : kBack;
  if (!first) launch(trace, add(trace, kSendKernel, EventKind::collective, 0, 128, 100, 1500, tag), 90);
  const int at = first ? 1050 : 1550;
  launch(trace, add(trace, "gemm", EventKind::forward, 0, 0, at, at + 40, tag), at - 20);
  if (first) launch(trace, add(trace, kSendKernel, EventKind::collective, 0, 128, 1090, 1500, tag), 1080);
  return gpus;
}

std::string named(const Trace& trace, int event) {
  const Event& found = trace.events.at(as_index(event));
  return trace.devices.at(as_index(found.device)).name + " " + trace.names.at(as_index(found.name));
}

TEST(RankGpus, AMessageHasAllOfThem) {
  RankGpus gpus = gpus_of(true);
  gpus.started = Nanoseconds(123'456'789'012'345);
  gpus.refusal = "no CUPTI";
  const RankGpus read = gpus_from(message_of(gpus));
  EXPECT_EQ(read.started, gpus.started);
  EXPECT_EQ(read.refusal, gpus.refusal);
  ASSERT_TRUE(read.trace);
  EXPECT_EQ(read.trace->events, gpus.trace->events);
  EXPECT_EQ(read.trace->tags, gpus.trace->tags);
  EXPECT_EQ(read.trace->launches, gpus.trace->launches);
  EXPECT_FALSE(gpus_from(message_of(RankGpus{})).trace);
  Tensors message = message_of(gpus);
  message.pop_back();
  EXPECT_THROW((void)gpus_from(message), Error);
  message = message_of(gpus);
  message[0] = message[0].slice(0, 0, 1000);
  EXPECT_THROW((void)gpus_from(message), Error);
}

// Rank 1's clock is 2 ms ahead of rank 0's, and runs one percent too slowly.
TEST(RankGpus, AreSetToTheFirstClockAndMeetTheirHosts) {
  std::vector<RankGpus> gpus{gpus_of(true), gpus_of(false)};
  gpus[0].started = Nanoseconds(5'000'000);
  gpus[1].started = Nanoseconds(7'000'000);
  std::vector<RankClock> clocks(2);
  clocks[1].reference = gpus[1].started;
  clocks[1].since_reference = {.offset = Nanoseconds(-2'000'000), .drift = 1e-2};
  const Trace trace = with_gpus_of_ranks(host_of_two(), Nanoseconds(5'000'000), gpus, clocks);
  ASSERT_EQ(trace.events.size(), 3U);
  EXPECT_EQ(named(trace, 0), "0@cuda:0 gemm");
  EXPECT_EQ(named(trace, 1), "0@cuda:0 copy activation");
  EXPECT_EQ(named(trace, 2), "1@cuda:0 gemm");
  EXPECT_EQ(trace.events[0].start, Nanoseconds(1050));
  EXPECT_EQ(trace.events[1].start, Nanoseconds(1100)) << "NCCL's kernels wait: the message has the host's times";
  EXPECT_EQ(trace.events[1].end(), Nanoseconds(1500));
  EXPECT_NEAR(static_cast<double>(trace.events[2].start.count()), 1550 * 1.01, 1);
  EXPECT_EQ(trace.tags.at(as_index(trace.events[2].tag)), (Tag{0, 1, 0, 1, 0})) << "with the layer that the host knows";
  EXPECT_EQ(trace.events[2].kind, EventKind::forward);
  ASSERT_EQ(trace.edges.size(), 2U);
  EXPECT_EQ(trace.edges[0], (Edge{0, 1, EdgeKind::data}));
  EXPECT_EQ(trace.edges[1], (Edge{1, 2, EdgeKind::data}));
  EXPECT_EQ(trace.quality, TraceQuality{});
}

TEST(RankGpus, AMessageThroughHostMemoryIsTwoCopies) {
  std::vector<RankGpus> gpus(2);
  for (int rank : {0, 1}) {
    Trace& trace = gpus[as_index(rank)].trace.emplace();
    trace.devices = {{"cuda:0", "a GPU", 132, 80}};
    const int compute = rank == 0 ? 1050 : 1550, copy = rank == 0 ? 1120 : 1400;
    const auto copied = [&] {
      const Copy ends = rank == 0 ? Copy{64, 0, -1} : Copy{64, -1, 0};
      launch(trace, add_copy(trace, ends, 0, 129, copy, copy + 50, {0, rank, 0, -1, -1}), copy - 10);
    };
    if (rank == 1) copied();
    launch(trace, add(trace, "gemm", EventKind::forward, 0, 0, compute, compute + 40, rank == 0 ? kFront : kBack), compute - 20);
    if (rank == 0) copied();
    trace.edges = {{0, 1, EdgeKind::event_wait}};
  }
  const Trace trace = with_gpus_of_ranks(host_of_two(), Nanoseconds(0), gpus, std::vector<RankClock>(2));
  ASSERT_EQ(trace.events.size(), 4U);
  EXPECT_EQ(named(trace, 1), "0@cuda:0 copy activation");
  EXPECT_EQ(named(trace, 2), "1@cuda:0 copy activation");
  EXPECT_EQ(trace.events[1].duration, Nanoseconds(50));
  std::vector<std::pair<int, int>> edges;
  for (const Edge& edge : trace.edges) edges.emplace_back(edge.producer, edge.consumer);
  std::ranges::sort(edges);
  EXPECT_EQ(edges, (std::vector<std::pair<int, int>>{{0, 1}, {1, 2}, {2, 3}}));
}

TEST(RankGpus, WorkOfGpusThatWereNotRecordedIsDropped) {
  std::vector<RankGpus> gpus{gpus_of(true), {}};
  const Trace trace = with_gpus_of_ranks(host_of_two(), Nanoseconds(0), gpus, std::vector<RankClock>(2));
  EXPECT_EQ(trace.quality.dropped, 1);
  ASSERT_EQ(trace.events.size(), 3U);
  EXPECT_EQ(named(trace, 2), "1@cuda:0 forward b") << "as the host gave it work";
  const Trace none = with_gpus_of_ranks(host_of_two(), Nanoseconds(0), std::vector<RankGpus>(2), std::vector<RankClock>(2));
  EXPECT_EQ(none.events, host_of_two().events);
  EXPECT_EQ(none.quality.dropped, 3);
}

}  // namespace
}  // namespace mptune::tuner
