#include "tests/support/hand_trace.h"

#include <string>
#include <vector>

#include "profiler/base/index.h"
#include "profiler/trace/values/trace_builder.h"

namespace mptune::testing {
namespace {

struct Span {
  int start;
  int end;
};

int add(Trace& trace, EventKind kind, const std::string& name, int device, int lane, Span span, Tag tag, int detail = -1) {
  Event event;
  event.start = Nanoseconds{span.start};
  event.duration = Nanoseconds{span.end - span.start};
  event.name = profiler::TraceBuilder(trace).name(name);
  event.tag = static_cast<std::int32_t>(trace.tags.size());
  event.detail = detail;
  event.device = static_cast<std::int16_t>(device);
  event.lane = static_cast<std::uint8_t>(lane);
  event.kind = kind;
  trace.tags.push_back(tag);
  trace.events.push_back(event);
  return static_cast<int>(trace.events.size()) - 1;
}

int add_copy(Trace& trace, const std::string& name, int source, int destination, Span span, Tag tag) {
  trace.copies.push_back({.bytes = 4096, .source = source, .destination = destination});
  const int detail = static_cast<int>(trace.copies.size()) - 1;
  return add(trace, EventKind::copy, name, source, copy_lane(destination), span, tag, detail);
}

void add_range(Trace& trace, EventKind kind, const std::string& name, int device, Span span) {
  Event range;
  range.start = Nanoseconds{span.start};
  range.duration = Nanoseconds{span.end - span.start};
  range.name = profiler::TraceBuilder(trace).name(name);
  range.device = static_cast<std::int16_t>(device);
  range.kind = kind;
  trace.ranges.push_back(range);
}

void add_launches(Trace& trace) {
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const Event& event = trace.events[i];
    if (event.kind == EventKind::sync || event.kind == EventKind::host || event.kind == EventKind::profiler) continue;
    trace.launches.push_back({.event = static_cast<int>(i),
                              .thread = event.device,
                              .start = event.start,
                              .end = event.start + Nanoseconds{1},
                              .correlation = static_cast<std::int64_t>(trace.launches.size()) + 10});
  }
}

}  // namespace

Trace hand_trace() {
  Trace trace;
  trace.devices = {{.name = "cpu:0", .description = "CPU core set, 1 core", .cores = 1, .memory_bytes = 1 << 30},
                   {.name = "cpu:1", .description = "CPU core set, 1 core", .cores = 1, .memory_bytes = 0}};
  trace.threads = {"worker cpu:0", "worker cpu:1"};
  const Tag f0{.step = 0, .stage = 0, .microbatch = 0, .layer = 0, .replica = 0};
  const Tag f1{.step = 0, .stage = 0, .microbatch = 1, .layer = 0, .replica = 0};
  const Tag b0{.step = 0, .stage = 1, .microbatch = 0, .layer = 1, .replica = 0};
  const int forward0 = add(trace, EventKind::forward, "forward conv1", 0, 0, {0, 10}, f0);
  add(trace, EventKind::forward, "forward conv1", 0, 0, {10, 20}, f1);
  const int copy0 = add_copy(trace, "copy conv1", 0, 1, {10, 16}, f0);
  const int wait = add(trace, EventKind::sync, "wait conv1", 1, 0, {2, 16}, b0);
  const int backward = add(trace, EventKind::backward, "backward fc", 1, 0, {16, 60}, b0);
  const int copy1 = add_copy(trace, "copy fc", 1, 0, {60, 65}, b0);
  const int recompute = add(trace, EventKind::recompute, "recompute conv1", 0, 0, {65, 70}, f0);
  const int input = add(trace, EventKind::backward_input, "backward_input conv1", 0, 0, {70, 80}, f0);
  add(trace, EventKind::backward_weight, "backward_weight conv1", 0, 0, {80, 90}, f0);
  add(trace, EventKind::host, "host loss", 1, 0, {65, 68}, {});
  add(trace, EventKind::memset, "memset gradients", 1, 0, {68, 69}, {});
  add(trace, EventKind::reduce, "reduce conv1", 0, 0, {90, 93}, {.step = 0, .stage = 0});
  add(trace, EventKind::collective, "collective fc", 1, 0, {90, 95}, {.step = 0, .stage = 1});
  add(trace, EventKind::optimizer, "optimizer", 0, 0, {93, 100}, {.step = 0});
  for (const int device : {0, 1}) add_range(trace, EventKind::step, "step 0", device, {0, 100});
  add_range(trace, EventKind::action, "0F0", 0, {0, 10});
  add_range(trace, EventKind::action, "1B0", 1, {2, 60});
  add_launches(trace);
  trace.edges = {{forward0, copy0, EdgeKind::data}, {copy0, wait, EdgeKind::event_wait},      {wait, backward, EdgeKind::order},
                 {backward, copy1, EdgeKind::data}, {copy1, recompute, EdgeKind::event_wait}, {recompute, input, EdgeKind::order}};
  trace.memory = {{Nanoseconds{0}, 0, 100}, {Nanoseconds{10}, 0, 4196}, {Nanoseconds{16}, 1, 4096}};
  trace.steps = {{.step = 0, .start = Nanoseconds{0}, .end = Nanoseconds{100}}};
  trace.quality = {.dropped = 1, .untagged = 2, .out_of_window = 3};
  trace.started_utc_ns = 1'700'000'000'000'000'123;
  return trace;
}

Trace gpu_trace() {
  Trace trace;
  trace.devices = {{.name = "cuda:0", .description = "a GPU", .cores = 132, .memory_bytes = std::int64_t{80} << 30},
                   {.name = "cuda:1", .description = "a GPU", .cores = 132, .memory_bytes = std::int64_t{80} << 30}};
  trace.threads = {"worker cuda:0", "worker cuda:1"};
  const Tag tag{.step = 0, .stage = 0, .microbatch = 0, .layer = 0, .replica = 0};
  trace.kernels = {{2, 15, {4, 1, 1}, {64, 2, 1}, 40, 1024, 65536},
                   {1, 7, {132, 3, 2}, {128, 1, 1}, 255, 0, 0},
                   {1, 13, {1, 1, 1}, {1024, 1, 1}, 32, 48, 0},
                   {3, 19, {9, 9, 9}, {3, 3, 3}, 1, 2, 3}};
  const int gemm = add(trace, EventKind::forward, "void gemm<float, 128>(float const*, int)", 0, 0, {100, 200}, tag, 1);
  add(trace, EventKind::kernel, "elementwise", 0, 0, {200, 210}, {}, 2);
  const int sent = add_copy(trace, "Memcpy PtoP", 0, 1, {210, 290}, tag);
  const int waited = add(trace, EventKind::sync, "cudaStreamWaitEvent", 1, 0, {120, 290}, tag);
  const int next = add(trace, EventKind::backward, "dgrad", 1, 0, {290, 400}, tag, 0);
  add(trace, EventKind::memset, "Memset (Device)", 1, 0, {400, 401}, tag);
  add_copy(trace, "Memcpy HtoD", 0, 0, {20, 40}, {});
  trace.copies.back().source = -1;
  add_copy(trace, "Memcpy DtoH", 1, 1, {410, 420}, {});
  trace.copies.back().destination = -1;
  add(trace, EventKind::profiler, "Buffer flush (Profiler)", 0, 0, {430, 450}, {});
  add(trace, EventKind::profiler, "stop", 1, 0, {430, 440}, {});
  add_launches(trace);
  const int launch = profiler::TraceBuilder(trace).name("cudaLaunchKernel_v7000");
  for (Launch& call : trace.launches) call.name = trace.events[as_index(call.event)].kind == EventKind::copy ? -1 : launch;
  trace.launches.push_back(
      {-1, 1, profiler::TraceBuilder(trace).name("cudaStreamSynchronize_v3020"), Nanoseconds{300}, Nanoseconds{402}, 700});
  trace.launches.push_back({-1, 0, profiler::TraceBuilder(trace).name("cuMemAlloc_v2"), Nanoseconds{1}, Nanoseconds{19}, 500});
  trace.launches.push_back({-1, 0, -1, Nanoseconds{50}, Nanoseconds{50}, 501});
  trace.edges = {{gemm, sent, EdgeKind::data}, {sent, waited, EdgeKind::event_wait}, {waited, next, EdgeKind::order}};
  trace.steps = {{.step = 0, .start = Nanoseconds{0}, .end = Nanoseconds{460}}};
  trace.quality = {
      .dropped = 1, .untagged = 2, .out_of_window = 3, .zero_stamped = 4, .unmatched = 5, .cut_off = 6, .ambiguous = 7, .unmatched_ns = 8};
  return trace;
}

Trace random_trace(std::mt19937& random, int devices, int count) {
  Trace trace;
  for (int d = 0; d < devices; ++d) trace.devices.push_back({.name = "sleep:" + std::to_string(d), .description = "sleeping device"});
  std::vector<std::vector<int>> free(as_index(devices), std::vector<int>(as_index(devices) + 1, 0));
  std::uniform_int_distribution<int> pick(0, 1 << 20);
  for (int i = 0; i < count; ++i) {
    const int device = pick(random) % devices;
    const int destination = pick(random) % devices;
    const bool copies = destination != device && pick(random) % 3 == 0;
    const int lane = copies ? copy_lane(destination) : kComputeLane;
    int& next = free[as_index(device)][as_index(lane)];
    const int start = next + pick(random) % 6;
    next = start + pick(random) % 9;
    const auto what = static_cast<EventKind>(pick(random) % static_cast<int>(EventKind::action));
    if (copies)
      add_copy(trace, "copy", device, destination, {start, next}, {});
    else
      add(trace, what == EventKind::copy ? EventKind::forward : what, "event", device, lane, {start, next}, {});
  }
  for (int step = 0; step < 3; ++step)
    trace.steps.push_back({.step = step, .start = Nanoseconds{step * 3 * count}, .end = Nanoseconds{step * 3 * count + 2 * count}});
  return trace;
}

}  // namespace mptune::testing
