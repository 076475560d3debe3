#include "profiler/trace/values/merge.h"
#include "profiler/base/index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "profiler/trace/values/trace_builder.h"

namespace mptune::testing {
using namespace profiler;
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr auto kStart = Nanoseconds{1000};  // of the GPUs' recorder, in the host's time

int tag_of(Trace& trace, const Tag& tag) {
  trace.tags.push_back(tag);
  return static_cast<int>(trace.tags.size()) - 1;
}

int add(Trace& trace, const std::string& name, EventKind kind, int device, int lane, int start, int end, const Tag& tag = {}) {
  Event event{Nanoseconds{start}, Nanoseconds{end - start}, profiler::TraceBuilder(trace).name(name)};
  event.kind = kind;
  event.device = static_cast<std::int16_t>(device);
  event.lane = static_cast<std::uint8_t>(lane);
  if (tag != Tag{}) event.tag = tag_of(trace, tag);
  trace.events.push_back(event);
  return static_cast<int>(trace.events.size()) - 1;
}

int add_copy(Trace& trace, const std::string& name, const Copy& copy, int device, int lane, int start, int end, const Tag& tag) {
  const int index = add(trace, name, EventKind::copy, device, lane, start, end, tag);
  trace.events.back().detail = static_cast<int>(trace.copies.size());
  trace.copies.push_back(copy);
  return index;
}

void launched(Trace& trace, int event, int start, const std::string& thread = "thread 7") {
  if (trace.threads.empty() || trace.threads.back() != thread) trace.threads.push_back(thread);
  trace.launches.push_back({event, static_cast<int>(trace.threads.size()) - 1, profiler::TraceBuilder(trace).name("cudaLaunchKernel"),
                            Nanoseconds{start}, Nanoseconds{start + 2}, event + 1});
}

/// Stage 0 on a CPU, stage 1 on a GPU: forward and backward of one micro-batch.
Trace host_of_mixed_step() {
  Trace host;
  host.devices = {{"cpu:0", "CPU", 1, 0}, {"cuda:0", "a GPU", 132, 80}};
  host.threads = {"stage worker cpu:0", "stage worker cuda:0"};
  host.started_utc_ns = 5;
  host.steps = {{0, Nanoseconds{1000}, Nanoseconds{2000}}};
  const int f0 = add(host, "forward a", EventKind::forward, 0, 0, 1010, 1100, {0, 0, 0, 0, 0});
  const int c0 = add_copy(host, "copy activation", {64, 0, 1}, 0, copy_lane(1), 1100, 1120, {0, 1, 0, -1, -1});
  const int f1 = add(host, "forward b", EventKind::forward, 1, 0, 1120, 1140, {0, 1, 0, 1, 0});
  const int f2 = add(host, "forward c", EventKind::forward, 1, 0, 1140, 1160, {0, 1, 0, 2, 0});
  const int b1 = add(host, "backward b", EventKind::backward, 1, 0, 1160, 1200, {0, 1, 0, 1, 0});
  const int c1 = add_copy(host, "copy gradient", {64, 1, 0, true}, 1, copy_lane(0), 1200, 1700, {0, 0, 0, -1, -1});
  const int b0 = add(host, "backward a", EventKind::backward, 0, 0, 1700, 1900, {0, 0, 0, 0, 0});
  host.edges = {{f0, c0, EdgeKind::data}, {c0, f1, EdgeKind::data}, {f1, f2, EdgeKind::order}, {f2, b1, EdgeKind::order},
                {b1, c1, EdgeKind::data}, {c1, b0, EdgeKind::data}, {f0, b0, EdgeKind::order}};
  for (int i : {f0, f1, f2, b1, b0}) {
    const Event& event = host.events[as_index(i)];
    host.launches.push_back({i, event.device, event.name, event.start, event.end(), i + 1});
  }
  Event range{Nanoseconds{1120}, Nanoseconds{40}, profiler::TraceBuilder(host).name("1F0"), tag_of(host, {0, 1, 0, -1, 0}), -1, 1, 0,
              EventKind::action};
  host.ranges = {range};
  range.device = 0;
  range.tag = -1;
  range.name = profiler::TraceBuilder(host).name("0F0");
  host.ranges.push_back(range);
  host.memory = {{Nanoseconds{1150}, 1, 77}};
  host.quality = {.dropped = 1, .untagged = 9, .out_of_window = 9};
  return host;
}

/// The same step as recorded by the GPU, whose time 0 is 1000 on the host's clock.
Trace gpu_of_mixed_step() {
  Trace gpu;
  gpu.devices = {{"cuda:0", "a GPU", 132, 80}};
  const int in = add_copy(gpu, "copy host to device", {64, -1, 0}, 0, 128, 115, 130, {0, 1, 0, -1, -1});
  launched(gpu, in, 105);
  const Tag action{0, 1, 0, -1, 0};
  const int k1 = add(gpu, "gemm", EventKind::forward, 0, 0, 300, 400, action);
  gpu.events.back().detail = 0;
  gpu.kernels.push_back({.stream = 7});
  launched(gpu, k1, 125);
  const int k2 = add(gpu, "relu", EventKind::forward, 0, 0, 400, 450, action);
  launched(gpu, k2, 145);
  const int k3 = add(gpu, "gemm", EventKind::backward, 0, 0, 450, 600, action);
  launched(gpu, k3, 170, "thread 8");
  const int out = add_copy(gpu, "copy device to host", {64, 0, -1}, 0, 129, 610, 640, {0, 0, 0, -1, -1});
  launched(gpu, out, 210);
  const int lost = add(gpu, "stray", EventKind::kernel, 0, 0, 1200, 1210);
  launched(gpu, lost, 650);
  gpu.edges = {{in, k1, EdgeKind::event_wait}, {k1, k2, EdgeKind::order}, {k2, k3, EdgeKind::order}, {k3, out, EdgeKind::event_wait}};
  gpu.quality = {.dropped = 2, .untagged = 1, .out_of_window = 5, .zero_stamped = 3, .unmatched = 4};
  return gpu;
}

std::string name_of(const Trace& trace, const Event& event) {
  return trace.names.at(as_index(event.name));
}

std::vector<std::string> names_of(const Trace& trace, int device) {
  std::vector<std::string> names;
  for (const Event& event : trace.events)
    if (event.device == device) names.push_back(name_of(trace, event));
  return names;
}

const Event& first_named(const Trace& trace, const std::string& name) {
  for (const Event& event : trace.events)
    if (name_of(trace, event) == name) return event;
  throw std::out_of_range(name);
}

int layer_of(const Trace& trace, const Event& event) {
  return trace.tags.at(as_index(event.tag)).layer;
}

TEST(MergeTraces, WorkComesFromTheRecorderOfItsDevice) {
  const Trace merged = profiler::merge_traces(host_of_mixed_step(), gpu_of_mixed_step(), kStart);
  EXPECT_EQ(merged.devices.size(), 2U);
  EXPECT_THAT(names_of(merged, 0), ElementsAre("forward a", "backward a"));
  EXPECT_THAT(names_of(merged, 1),
              ElementsAre("copy activation, host to device", "gemm", "relu", "gemm", "copy gradient, device to host", "stray"));
  EXPECT_EQ(first_named(merged, "relu").start.count(), 1400);
  EXPECT_EQ(first_named(merged, "relu").duration.count(), 50);
  EXPECT_EQ(merged.kernels.at(as_index(first_named(merged, "gemm").detail)).stream, 7);
  EXPECT_EQ(merged.steps, host_of_mixed_step().steps);
  EXPECT_EQ(merged.memory, host_of_mixed_step().memory);
  EXPECT_EQ(merged.started_utc_ns, 5);
  EXPECT_THAT(merged.threads, ElementsAre("stage worker cpu:0", "stage worker cuda:0", "thread 7", "thread 8"));
}

TEST(MergeTraces, TheHostKnowsLayersAndTheOtherEndsOfCopies) {
  const Trace merged = profiler::merge_traces(host_of_mixed_step(), gpu_of_mixed_step(), kStart);
  EXPECT_EQ(layer_of(merged, first_named(merged, "gemm")), 1);
  EXPECT_EQ(layer_of(merged, first_named(merged, "relu")), 2);
  const auto ends = [&](const std::string& name) { return merged.copies.at(as_index(first_named(merged, name).detail)); };
  EXPECT_EQ(ends("copy activation, host to device"), (Copy{64, 0, 1}));
  EXPECT_EQ(ends("copy gradient, device to host"), (Copy{64, 1, 0}));
  EXPECT_EQ(merged.copies.size(), 2U) << "each counts once";
  std::set<std::tuple<int, int, int, int, int>> tags;
  for (const Tag& tag : merged.tags) tags.insert({tag.step, tag.stage, tag.microbatch, tag.layer, tag.replica});
  EXPECT_EQ(first_named(merged, "stray").tag, -1);
  EXPECT_TRUE(tags.contains({0, 1, 0, 2, 0}));
}

TEST(MergeTraces, CopiesAreTaggedByTheHost) {
  Trace gpu = gpu_of_mixed_step();
  gpu.events[0].tag = tag_of(gpu, {0, 0, 0, -1, 0});  // the sender's
  gpu.events[4].tag = -1;
  const Trace merged = profiler::merge_traces(host_of_mixed_step(), gpu, kStart);
  const auto tag = [&](const std::string& name) { return merged.tags.at(as_index(first_named(merged, name).tag)); };
  EXPECT_EQ(tag("copy activation, host to device"), (Tag{0, 1, 0, -1, -1}));
  EXPECT_EQ(tag("copy gradient, device to host"), (Tag{0, 0, 0, -1, -1}));
  EXPECT_EQ(merged.quality.untagged, 1) << "the stray kernel";
}

/// Stages 0 and 1 on two parts of one GPU. Its recorder sees one device with a stream per part and one for copies.
TEST(MergeTraces, TheHostTellsPartsOfAGpuApart) {
  Trace host, gpu;
  host.devices = {{"cuda:0/1of2", "", 66, 0}, {"cuda:0/2of2", "", 66, 0}};
  host.steps = {{0, Nanoseconds{1000}, Nanoseconds{2000}}};
  add(host, "forward a", EventKind::forward, 0, 0, 1000, 1040, {0, 0, 0, 0, 0});
  add_copy(host, "copy activation", {64, 0, 1}, 0, copy_lane(1), 1040, 1060, {0, 1, 0, -1, -1});
  add(host, "forward b", EventKind::forward, 1, 0, 1060, 1100, {0, 1, 0, 1, 0});
  gpu.devices = {{"cuda:0/1of2", "", 66, 0}, {"cuda:0/2of2", "", 66, 0}, {"cuda:0", "", 132, 0}};
  launched(gpu, add(gpu, "gemm", EventKind::forward, 2, 128, 100, 200, {0, 0, 0, -1, 0}), 10);
  launched(gpu, add_copy(gpu, "copy within device", {64, 2, 2}, 2, 129, 200, 220, {}), 50);
  launched(gpu, add(gpu, "relu", EventKind::forward, 2, 0, 220, 400, {0, 1, 0, -1, 0}), 70);
  launched(gpu, add(gpu, "late", EventKind::forward, 2, 0, 400, 500, {0, 1, 0, -1, 0}), 300);  // beyond what the host saw
  launched(gpu, add_copy(gpu, "local", {8, 2, 2}, 2, 0, 500, 510, {0, 1, 0, -1, 0}), 310);
  const Trace merged = profiler::merge_traces(host, gpu, kStart);
  EXPECT_EQ(merged.devices, host.devices);
  EXPECT_THAT(names_of(merged, 0), ElementsAre("gemm", "copy activation"));
  EXPECT_THAT(names_of(merged, 1), ElementsAre("relu", "late", "local"));
  EXPECT_EQ(merged.copies, (std::vector<Copy>{{64, 0, 1}, {8, 1, 1}}));
  EXPECT_EQ(first_named(merged, "gemm").lane, kComputeLane);
  EXPECT_EQ(first_named(merged, "relu").lane, kComputeLane);
  EXPECT_EQ(first_named(merged, "local").lane, kComputeLane);
  EXPECT_EQ(layer_of(merged, first_named(merged, "relu")), 1);
  EXPECT_EQ(merged.quality.untagged, 0);
}

// The recorder's work belongs to no action: it may go to any part, but must not add a device.
TEST(MergeTraces, RecordersWorkIsOnTheFirstPart) {
  Trace host, gpu;
  host.devices = {{"cpu:0", "CPU", 1, 0}, {"cuda:0/1of2", "", 66, 0}, {"cuda:0/2of2", "", 66, 0}};
  gpu.devices = {{"cuda:0/1of2", "", 66, 0}, {"cuda:0/2of2", "", 66, 0}, {"cuda:0", "", 132, 0}};
  add(host, "forward a", EventKind::forward, 1, 0, 1000, 1040, {0, 0, 0, 0, 0});
  add(gpu, "recorder: buffer flush", EventKind::profiler, 2, 255, 5, 90);
  launched(gpu, add(gpu, "gemm", EventKind::forward, 2, 128, 100, 200, {0, 0, 0, -1, 0}), 10);
  const Trace merged = profiler::merge_traces(host, gpu, kStart);
  EXPECT_EQ(merged.devices, host.devices);
  EXPECT_THAT(names_of(merged, 1), ElementsAre("recorder: buffer flush", "gemm"));
  EXPECT_NE(first_named(merged, "recorder: buffer flush").lane, kComputeLane);
  EXPECT_EQ(first_named(merged, "gemm").lane, kComputeLane);
  host.devices.resize(1);
  host.events.clear();
  EXPECT_EQ(profiler::merge_traces(host, gpu, kStart).devices.size(), 2U) << "a GPU that the host does not know";
}

TEST(MergeTraces, WorkOfNoPartKeepsItsGpu) {
  Trace host, gpu;
  host.devices = {{"cuda:0/1of2", "", 66, 0}};
  gpu.devices = {{"cuda:0", "", 132, 0}};
  add(host, "forward a", EventKind::forward, 0, 0, 1000, 1040, {0, 0, 0, 0, 0});
  add(gpu, "stray", EventKind::kernel, 0, 0, 1, 2);
  launched(gpu, add(gpu, "gemm", EventKind::forward, 0, 128, 3, 4, {0, 0, 0, -1, 0}), 2);
  const Trace merged = profiler::merge_traces(host, gpu, kStart);
  ASSERT_EQ(merged.devices.size(), 2U);
  EXPECT_EQ(merged.devices[1].name, "cuda:0");
  EXPECT_EQ(first_named(merged, "stray").device, 1);
  EXPECT_EQ(first_named(merged, "gemm").device, 0);
}

/// Of the last two copies, one has no host's record and one looks like a copy that the other part waits for.
TEST(MergeTraces, CopiesOfOneStreamAreOfOnePart) {
  Trace host, gpu;
  host.devices = {{"cuda:0/1of2", "", 66, 0}, {"cuda:0/2of2", "", 66, 0}, {"cpu:0", "CPU", 1, 0}};
  for (int i = 0; i < 2; ++i)
    add_copy(host, "copy activation", {64, 2, 1}, 1, copy_lane(1), 1000 + 100 * i, 1050 + 100 * i, {0, 1, i, -1, -1});
  add_copy(host, "copy gradient", {64, 2, 0}, 0, copy_lane(1), 1300, 1350, {0, 0, 3, -1, -1});
  gpu.devices = {{"cuda:0", "", 132, 0}};
  for (int i = 0; i < 2; ++i)
    launched(gpu, add_copy(gpu, "copy host to device", {64, -1, 0}, 0, 128, 20 + 100 * i, 40 + 100 * i, {0, 1, i, -1, -1}), 10 + 100 * i);
  launched(gpu, add_copy(gpu, "copy host to device", {64, -1, 0}, 0, 128, 220, 240, {0, 1, 2, -1, -1}), 210);
  launched(gpu, add_copy(gpu, "copy host to device", {64, -1, 0}, 0, 128, 320, 340, {0, 1, 3, -1, -1}), 310);
  const Trace merged = profiler::merge_traces(host, gpu, kStart);
  EXPECT_EQ(merged.devices, host.devices);
  EXPECT_EQ(names_of(merged, 0).size(), 0U);
  EXPECT_EQ(names_of(merged, 1).size(), 4U);
}

/// Both GPUs' backwards end before the host launches the updates: that of GPU 0 at once, that of GPU 1 while GPU 0 still computes.
TEST(MergeTraces, UpdatesWaitForTheOtherGpus) {
  Trace host, gpu;
  host.devices = gpu.devices = {{"cuda:0", "", 132, 0}, {"cuda:1", "", 132, 0}};
  add(host, "backward b", EventKind::backward, 1, 0, 1000, 1010, {0, 1, 0, 1, 0});
  add(host, "backward a", EventKind::backward, 0, 0, 1010, 1020, {0, 0, 0, 0, 0});
  add(host, "update b", EventKind::optimizer, 1, 0, 1500, 1510, {0, 1, -1, -1, 0});
  host.edges = {{1, 2, EdgeKind::data}};
  launched(gpu, add(gpu, "gemm b", EventKind::backward, 1, 0, 20, 100, {0, 1, 0, -1, 0}), 5);
  launched(gpu, add(gpu, "gemm a", EventKind::backward, 0, 0, 100, 450, {0, 0, 0, -1, 0}), 15);
  launched(gpu, add(gpu, "add", EventKind::optimizer, 1, 0, 520, 530, {0, 1, -1, -1, 0}), 505);
  const Edge awaited{1, 2, EdgeKind::data};
  EXPECT_THAT(profiler::merge_traces(host, gpu, kStart).edges, Contains(awaited));
  gpu.events[1].duration += Nanoseconds{60};
  EXPECT_THAT(profiler::merge_traces(host, gpu, kStart).edges, Not(Contains(awaited))) << "the launch did not wait";
}

TEST(MergeTraces, AnAmbiguousCopyIsNotMatched) {
  Trace host = host_of_mixed_step(), gpu = gpu_of_mixed_step();
  host.devices.push_back({"cpu:1", "CPU", 1, 0});
  host.edges.clear();
  host.launches.clear();
  add_copy(host, "copy activation", {64, 2, 1}, 2, copy_lane(1), 1100, 1130, {0, 1, 0, -1, -1});
  std::rotate(host.events.begin() + 2, host.events.end() - 1, host.events.end());
  const Trace merged = profiler::merge_traces(host, gpu, kStart);
  EXPECT_EQ(merged.copies.at(as_index(first_named(merged, "copy host to device").detail)), (Copy{64, -1, 1}));
}

TEST(MergeTraces, TheHostKnowsWhatIsRecomputed) {
  Trace host = host_of_mixed_step();
  host.events[4].kind = EventKind::recompute;
  const Trace merged = profiler::merge_traces(host, gpu_of_mixed_step(), kStart);
  EXPECT_EQ(first_named(merged, "relu").kind, EventKind::forward);
  EXPECT_EQ(merged.events.at(4).kind, EventKind::recompute) << name_of(merged, merged.events.at(4));
}

TEST(MergeTraces, EdgesJoinTheDevices) {
  const Trace merged = profiler::merge_traces(host_of_mixed_step(), gpu_of_mixed_step(), kStart);
  std::vector<std::pair<std::string, std::string>> order, others;
  for (const Edge& edge : merged.edges) {
    EXPECT_LT(edge.producer, edge.consumer);
    const auto name = [&](int index) { return name_of(merged, merged.events.at(as_index(index))); };
    (edge.kind == EdgeKind::order ? order : others).emplace_back(name(edge.producer), name(edge.consumer));
  }
  EXPECT_THAT(order, UnorderedElementsAre(Pair("gemm", "relu"), Pair("relu", "gemm"), Pair("forward a", "backward a")));
  EXPECT_THAT(others, UnorderedElementsAre(Pair("copy activation, host to device", "gemm"), Pair("gemm", "copy gradient, device to host"),
                                           Pair("forward a", "copy activation, host to device"),
                                           Pair("copy gradient, device to host", "backward a")));
}

TEST(MergeTraces, ActionsLastAsLongAsTheirWork) {
  const Trace merged = profiler::merge_traces(host_of_mixed_step(), gpu_of_mixed_step(), kStart);
  ASSERT_EQ(merged.ranges.size(), 2U);
  EXPECT_EQ(name_of(merged, merged.ranges[0]), "0F0");
  EXPECT_EQ(merged.ranges[0].start.count(), 1120);
  EXPECT_EQ(name_of(merged, merged.ranges[1]), "1F0");
  EXPECT_EQ(merged.ranges[1].start.count(), 1300);
  EXPECT_EQ(merged.ranges[1].end().count(), 1450) << "the backward was launched later";
}

TEST(MergeTraces, LaunchesKeepTheirEventsAndDifferInNumber) {
  const Trace merged = profiler::merge_traces(host_of_mixed_step(), gpu_of_mixed_step(), kStart);
  EXPECT_EQ(merged.launches.size(), 8U) << "six of the GPU's, two of the host's";
  std::set<std::int64_t> numbers;
  for (const Launch& launch : merged.launches) {
    EXPECT_TRUE(numbers.insert(launch.correlation).second);
    ASSERT_GE(launch.event, 0);
    EXPECT_LE(launch.start, merged.events.at(as_index(launch.event)).start);
  }
}

TEST(MergeTraces, LossesAddUp) {
  const Trace merged = profiler::merge_traces(host_of_mixed_step(), gpu_of_mixed_step(), kStart);
  EXPECT_EQ(merged.quality, (TraceQuality{.dropped = 3, .untagged = 1, .out_of_window = 1, .zero_stamped = 3, .unmatched = 4}));
}

TEST(MergeTraces, ACopyThatTheGpuDidNotSeeStaysTheHosts) {
  Trace host = host_of_mixed_step(), gpu = gpu_of_mixed_step();
  gpu.launches[0].event = -1;
  host.edges.push_back({0, 1, EdgeKind::order});
  host.launches.push_back({1, 0, profiler::TraceBuilder(host).name("send"), Nanoseconds{1099}, Nanoseconds{1101}, 99});
  const Trace merged = profiler::merge_traces(host, gpu, kStart);
  EXPECT_THAT(names_of(merged, 0), ElementsAre("forward a", "copy activation", "backward a"));
  EXPECT_EQ(merged.copies.size(), 3U);
  std::vector<std::tuple<std::string, std::string, EdgeKind>> edges;
  for (const Edge& edge : merged.edges) {
    const auto name = [&](int index) { return name_of(merged, merged.events.at(as_index(index))); };
    edges.emplace_back(name(edge.producer), name(edge.consumer), edge.kind);
  }
  EXPECT_THAT(edges, IsSupersetOf({std::tuple("forward a", "copy activation", EdgeKind::data),
                                   std::tuple("forward a", "copy activation", EdgeKind::order),
                                   std::tuple("copy activation", "gemm", EdgeKind::data)}));
  const auto send = std::ranges::find(merged.launches, Nanoseconds{1099}, &Launch::start);
  ASSERT_NE(send, merged.launches.end());
  EXPECT_EQ(name_of(merged, merged.events.at(as_index(send->event))), "copy activation");
}

// An activation arrives while a gradient is sent; both are untagged.
TEST(MergeTraces, ConcurrentCopiesAreToldApartByDirection) {
  Trace host, gpu;
  host.devices = {{"cpu:0", "CPU", 1, 0}, {"cuda:0", "a GPU", 132, 80}};
  gpu.devices = {{"cuda:0", "a GPU", 132, 80}};
  add_copy(host, "copy activation", {64, 0, 1}, 0, copy_lane(1), 1100, 1200, {0, 1, 1, -1, -1});
  add_copy(host, "copy gradient", {32, 1, 0, true}, 1, copy_lane(0), 1100, 1200, {0, 0, 0, -1, -1});
  launched(gpu, add_copy(gpu, "in", {64, -1, 0}, 0, 128, 115, 130, {}), 110);
  launched(gpu, add_copy(gpu, "out", {32, 0, -1}, 0, 129, 120, 140, {}), 112);
  const Trace merged = profiler::merge_traces(host, gpu, kStart);
  EXPECT_EQ(merged.copies, (std::vector<Copy>{{64, 0, 1}, {32, 1, 0}}));
  EXPECT_EQ(merged.quality.untagged, 0);
}

TEST(MergeTraces, AnUploadIsNotMatchedToACopyOut) {
  Trace host = host_of_mixed_step(), gpu = gpu_of_mixed_step();
  launched(gpu, add_copy(gpu, "batch", {8, -1, 0}, 0, 128, 1300, 1305, {}), 220);
  const Trace merged = profiler::merge_traces(host, gpu, kStart);
  const Event& batch = first_named(merged, "batch");
  EXPECT_EQ(batch.tag, -1);
  EXPECT_EQ(merged.copies.at(as_index(batch.detail)), (Copy{8, -1, 1}));
}

TEST(MergeTraces, WithoutGpusTheHostsStays) {
  Trace host = host_of_mixed_step();
  host.devices[1].name = "cpu:1";
  host.quality = {};
  const Trace merged = profiler::merge_traces(host, Trace{}, Nanoseconds{0});
  Trace expected = host;
  std::stable_sort(expected.launches.begin(), expected.launches.end(), [](const Launch& a, const Launch& b) { return a.start < b.start; });
  for (std::size_t i = 0; i < expected.launches.size(); ++i) expected.launches[i].correlation = merged.launches.at(i).correlation;
  EXPECT_EQ(merged, expected);
}

TEST(MergeTraces, WithoutAHostTheGpusWorkStays) {
  const Trace gpu = gpu_of_mixed_step();
  const Trace merged = profiler::merge_traces(Trace{}, gpu, kStart);
  EXPECT_EQ(merged.events.size(), gpu.events.size());
  EXPECT_EQ(merged.edges, gpu.edges);
}

TEST(MergeTraces, RandomTracesMergeToAConsistentTrace) {
  std::mt19937 random(7);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 200; ++round) {
    Trace host, gpu;
    host.devices = {{"cpu:0", "", 1, 0}, {"cuda:1", "", 1, 0}, {round % 2 == 0 ? "cuda:0" : "cuda:0/1of2", "", 1, 0}};
    gpu.devices = {{"cuda:0", "", 1, 0}, {"cuda:1", "", 1, 0}, {"cuda:7", "", 1, 0}};
    for (Trace* trace : {&host, &gpu}) {
      trace->threads = {"t"};
      for (int time = 0; time < 400; time += 1 + below(10)) {
        const Tag tag{0, below(2), below(2), -1, 0};
        const int device = below(3);
        const int event = below(3) == 0
                              ? add_copy(*trace, "copy", {8, below(3) - 1, below(3) - 1}, device, 1 + below(3), time, time + below(9), tag)
                              : add(*trace, "work", EventKind::forward, device, 0, time, time + below(9), below(9) == 0 ? Tag{} : tag);
        if (below(5) != 0) launched(*trace, event, std::max(0, time - below(50)));
        if (event > 0) trace->edges.push_back({below(event), event, static_cast<EdgeKind>(below(3))});
      }
    }
    const Trace merged = profiler::merge_traces(host, gpu, Nanoseconds{below(100)});
    EXPECT_TRUE(
        std::is_sorted(merged.events.begin(), merged.events.end(), [](const Event& a, const Event& b) { return a.start < b.start; }));
    EXPECT_LE(merged.devices.size(), 5U);
    for (const Event& event : merged.events) EXPECT_LT(event.device, static_cast<int>(merged.devices.size()));
    for (const Copy& copy : merged.copies) EXPECT_LT(std::max(copy.source, copy.destination), static_cast<int>(merged.devices.size()));
    const auto count = static_cast<int>(merged.events.size());
    for (const Edge& edge : merged.edges) EXPECT_TRUE(edge.producer >= 0 && edge.producer < edge.consumer && edge.consumer < count);
    std::vector<int> details(merged.copies.size());
    for (const Event& event : merged.events) {
      EXPECT_LT(event.tag, static_cast<int>(merged.tags.size()));
      if (event.kind == EventKind::copy) ++details.at(as_index(event.detail));
    }
    EXPECT_THAT(details, ::testing::Each(1));
    for (const Launch& launch : merged.launches) EXPECT_LT(launch.event, count);
  }
}

}  // namespace
}  // namespace mptune::testing
