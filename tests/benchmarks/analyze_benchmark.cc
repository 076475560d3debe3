#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include "profiler/base/index.h"
#include "profiler/trace/analyze/breakdown.h"

namespace mptune::testing {
namespace {

// A trace of a pipeline of `devices` stages. In every step each device runs kernels of every micro-batch, sends the result and waits for
// the next micro-batch.
Trace kernel_trace(int devices, int events) {
  constexpr int kMicrobatches = 16;
  constexpr int kKernels = 400;
  Trace trace;
  trace.names = {"kernel", "copy"};
  trace.events.reserve(as_index(events + devices * kMicrobatches * (kKernels + 1)));
  for (int d = 0; d < devices; ++d) trace.devices.push_back({"cuda:" + std::to_string(d), "", 0, 0});
  Nanoseconds step_start{0};
  for (int step = 0; static_cast<int>(trace.events.size()) < events; ++step) {
    Nanoseconds now = step_start;
    std::vector<int> arrived(as_index(devices), -1);
    for (int m = 0; m < kMicrobatches; ++m) {
      // All devices compute at once, each its own micro-batch, so that events come in order of start.
      for (int d = 0; d < devices; ++d) trace.tags.push_back({step, d, m, -1, 0});
      const int first_tag = static_cast<int>(trace.tags.size()) - devices;
      for (int k = 0; k < kKernels; ++k) {
        for (int d = 0; d < devices; ++d) {
          const int index = static_cast<int>(trace.events.size());
          if (k == 0 && arrived[as_index(d)] >= 0) trace.edges.push_back({arrived[as_index(d)], index, EdgeKind::event_wait});
          trace.events.push_back(
              {now + Nanoseconds{d}, Nanoseconds{9'000}, 0, first_tag + d, -1, static_cast<std::int16_t>(d), 0, EventKind::forward});
        }
        now += Nanoseconds{10'000};
      }
      for (int d = 0; d + 1 < devices; ++d) {
        const int index = static_cast<int>(trace.events.size());
        trace.copies.push_back({1 << 20, d, d + 1});
        trace.edges.push_back({index - devices, index, EdgeKind::event_wait});
        trace.events.push_back({now, Nanoseconds{20'000}, 1, first_tag + d + 1, static_cast<std::int32_t>(trace.copies.size()) - 1,
                                static_cast<std::int16_t>(d), static_cast<std::uint8_t>(copy_lane(d + 1)), EventKind::copy});
        arrived[as_index(d) + 1] = index;
      }
      now += Nanoseconds{30'000};
    }
    trace.steps.push_back({step, step_start, now});
    step_start = now;
  }
  return trace;
}

double resident_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void break_down_kernels(benchmark::State& state) {
  const Trace trace = kernel_trace(4, static_cast<int>(state.range(0)));
  const double before = resident_mb();
  for (auto _ : state) benchmark::DoNotOptimize(profiler::break_down(trace));
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.counters["trace_MB"] = before;
  state.counters["peak_MB"] = resident_mb();
}
BENCHMARK(break_down_kernels)->ArgName("events")->Arg(3'000'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace mptune::testing
