#include <benchmark/benchmark.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "mptune/profiler/store/store.h"

namespace mptune {
namespace {

// Events of a training step, one after another on two devices: compute with a copy for every eighth, all with their launch where asked for.
Trace leaf_trace(int count, bool launches) {
  Trace trace;
  trace.devices = {{"cpu:0", "CPU core set, 1 core", 1, 0}, {"cpu:1", "CPU core set, 1 core", 1, 0}};
  trace.names = {"forward layer1.0", "copy layer1.0"};
  trace.threads = {"worker cpu:0", "worker cpu:1"};
  trace.tags = {{.step = 0, .stage = 0, .microbatch = 0, .layer = 0, .replica = 0}};
  for (int i = 0; i < count; ++i) {
    Event event;
    event.start = Nanoseconds{1000} * i;
    event.duration = Nanoseconds{900};
    event.tag = 0;
    event.device = static_cast<std::int16_t>(i % 2);
    if (i % 8 == 7) {
      event.what = What::copy;
      event.name = 1;
      event.lane = static_cast<std::uint8_t>(copy_lane(1 - event.device));
      event.detail = static_cast<std::int32_t>(trace.copies.size());
      trace.copies.push_back({4096, event.device, 1 - event.device});
    } else {
      event.what = What::forward;
    }
    trace.events.push_back(event);
    if (launches) trace.launches.push_back({i, event.device, event.name, event.start, event.start + Nanoseconds{10}, i + 1});
  }
  return trace;
}

std::string scratch_file() {
  return (std::filesystem::temp_directory_path() / ("mptune-benchmark-" + std::to_string(getpid()) + ".sqlite")).string();
}

void store_insert(benchmark::State& state) {
  const Recording recording{.trace = leaf_trace(static_cast<int>(state.range(0)), state.range(1) != 0)};
  const std::string path = scratch_file();
  for (auto _ : state) write_recording(recording, path, true);
  std::filesystem::remove(path);
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(store_insert)
    ->ArgNames({"events", "launches"})
    ->Args({100'000, 0})
    ->Args({100'000, 1})
    ->Args({400'000, 1})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

void store_read(benchmark::State& state) {
  const std::string path = scratch_file();
  write_recording({.trace = leaf_trace(static_cast<int>(state.range(0)), true)}, path, true);
  for (auto _ : state) benchmark::DoNotOptimize(read_recording(path));
  std::filesystem::remove(path);
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(store_read)->ArgName("events")->Arg(100'000)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace mptune
