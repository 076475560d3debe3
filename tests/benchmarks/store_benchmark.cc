#include <benchmark/benchmark.h>
#include <unistd.h>

#include <SQLiteCpp/SQLiteCpp.h>

#include <filesystem>
#include <string>

#include "profiler/trace/store/store.h"

namespace mptune::testing {
namespace {

constexpr int kMicrobatches = 16;

Kernel kernel(int i) {
  return {.context = 1 + i % 2,
          .stream = 7 + 6 * (i % 2),
          .grid = {132 + i % 4000, 1 + i % 3, 1},
          .block = {128 << i % 3, 1, 1},
          .registers_per_thread = 32 + i % 200,
          .static_shared_bytes = 1024 * (i % 5),
          .dynamic_shared_bytes = 40000 * (i % 4)};
}

// Kernels of training steps on two GPUs as in a recording: with details, 300 names, a tag per 50 kernels, and optionally launches.
Trace kernel_trace(int count, bool launches) {
  Trace trace;
  trace.devices = {{"cuda:0", "a GPU", 132, 0}, {"cuda:1", "a GPU", 132, 0}};
  for (int i = 0; i < 300; ++i) trace.names.push_back("void kernel_" + std::to_string(i) + "<float, 128, 4>(float const*, float*, int)");
  trace.threads = {"worker cuda:0", "worker cuda:1"};
  for (int i = 0; i * 50 < count; ++i)
    trace.tags.push_back({.step = i / 500, .stage = i % 2, .microbatch = i % kMicrobatches, .layer = i % 60, .replica = 0});
  for (int i = 0; i < count; ++i) {
    const Nanoseconds start{1'000'000'000 + std::int64_t{6000} * i};
    trace.events.push_back({.start = start,
                            .duration = Nanoseconds{900 + i % 5000},
                            .name = i % 300,
                            .tag = i / 50,
                            .detail = i,
                            .device = static_cast<std::int16_t>(i % 2),
                            .kind = EventKind::forward});
    trace.kernels.push_back(kernel(i));
    if (launches) trace.launches.push_back({i, i % 2, 0, start - Nanoseconds{9000}, start - Nanoseconds{4000}, 2 * i + 100});
  }
  return trace;
}

std::string scratch_file() {
  return (std::filesystem::temp_directory_path() / ("mptune-benchmark-" + std::to_string(getpid()) + ".sqlite")).string();
}

// Bytes per row of the tables of device work and of the MPTUNE_ tables, including page overhead.
void report_bytes(benchmark::State& state, const std::string& path) {
  const SQLite::Database database(path, SQLite::OPEN_READONLY);
  for (const auto& [counter, table] : {std::pair{"kernel_row_bytes", "CUPTI_ACTIVITY_KIND_KERNEL"},
                                       {"call_row_bytes", "CUPTI_ACTIVITY_KIND_RUNTIME"},
                                       {"event_row_bytes", "MPTUNE_EVENT"},
                                       {"launch_row_bytes", "MPTUNE_LAUNCH"}}) {
    SQLite::Statement bytes(database, "SELECT sum(pgsize) FROM dbstat WHERE name = ?");
    bytes.bind(1, table);
    if (bytes.executeStep()) state.counters[counter] = bytes.getColumn(0).getDouble() / static_cast<double>(state.range(0));
  }
}

// Items are kernels, or pairs of a kernel and its launch. Uses the CPU time of the writing thread.
void store_insert(benchmark::State& state) {
  const profiler::Recording recording{.trace = kernel_trace(static_cast<int>(state.range(0)), state.range(1) != 0)};
  const std::string path = scratch_file();
  for (auto _ : state) profiler::write_recording(recording, path, true);
  report_bytes(state, path);
  std::filesystem::remove(path);
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(store_insert)->ArgNames({"kernels", "launches"})->Args({500'000, 0})->Args({500'000, 1})->Unit(benchmark::kMillisecond);

void store_read(benchmark::State& state) {
  const std::string path = scratch_file();
  profiler::write_recording({.trace = kernel_trace(static_cast<int>(state.range(0)), true)}, path, true);
  for (auto _ : state) benchmark::DoNotOptimize(profiler::read_recording(path));
  std::filesystem::remove(path);
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(store_read)->ArgName("kernels")->Arg(500'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace mptune::testing
