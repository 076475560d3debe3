// What the runtime costs: of a step beside a plain training loop, of an action, of handing a boundary over, of recording, of a copy.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>

#include <future>

#include "busy_chain.h"
#include "planner/search/make_plan.h"
#include "profiler/device/copy_lane.h"
#include "profiler/device/cpu_allocator.h"
#include "profiler/device/device_worker.h"
#include "profiler/device/list/device_list.h"
#include "profiler/model/loading/load_model.h"
#include "profiler/trace/statistics/verdict.h"
#include "tuner/runtime/pipeline.h"

namespace mptune::testing {
namespace {

constexpr const char* kModel = "transformer:d=256,layers=4,seq=64";
constexpr int kBatch = 16;

std::string first_core() {
  return "cpu:" + std::to_string(available_cores()[0]);
}

/// Forward and backward of all micro-batches, as a user would write it.
void plain_steps(benchmark::State& state) {
  Model model = load_model(kModel, "", 0).model;
  const Batch batch = synthetic_batch(model.sample(), kBatch, 0);
  const auto parameters = model.parameters();
  const auto microbatches = state.range(0);
  for (auto _ : state) {
    for (const NamedTensor& parameter : parameters) at::Tensor(parameter.tensor).mutable_grad().reset();
    const std::int64_t size = kBatch / microbatches;
    for (std::int64_t m = 0; m < microbatches; ++m) {
      RunContext context;
      context.samples = size;
      const at::Tensor loss =
          model.loss()(forward_all(model, samples_of(batch.inputs, m * size, size), context), batch.target.narrow(0, m * size, size));
      loss.backward(at::full_like(loss, 1.0 / static_cast<double>(microbatches)));
    }
  }
}

/// On a thread of its own: one that is bound to a device stays on its cores, and the other benchmarks need all of them.
void plain_loop(benchmark::State& state) {
  profiler::DeviceWorker worker(make_device(parse_device(first_core())));
  worker.run([&] { plain_steps(state); });
}

void runtime(benchmark::State& state) {
  PlanOptions options;
  options.devices = {first_core()};
  options.batch = kBatch;
  Model model = load_model(kModel, "", 0).model;
  options.layers = model.size();
  options.stages = 1;
  options.microbatches = static_cast<int>(state.range(0));
  const Batch batch = synthetic_batch(model.sample(), kBatch, 0);
  Pipeline pipeline(std::move(model), make_plan(options));
  for (auto _ : state) benchmark::DoNotOptimize(pipeline.step(batch.inputs, batch.target));
}

double seconds_of_step(Pipeline& pipeline, const Batch& batch) {
  const auto start = std::chrono::steady_clock::now();
  benchmark::DoNotOptimize(pipeline.step(batch.inputs, batch.target));
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Two stages on two cores, steps off, on, on, off the record: median of the paired ratios and its 95 % interval, in percent.
void recording_cost(benchmark::State& state) {
  PlanOptions options;
  for (const int core : available_cores()) options.devices.push_back("cpu:" + std::to_string(core));
  options.devices.resize(std::min<std::size_t>(2, options.devices.size()));
  options.batch = kBatch;
  Model model = load_model(kModel, "", 0).model;
  options.layers = model.size();
  options.stages = static_cast<int>(options.devices.size());
  options.microbatches = 4;
  const Batch batch = synthetic_batch(model.sample(), kBatch, 0);
  Pipeline pipeline(std::move(model), make_plan(options));
  HostCollector collector(pipeline.trace_devices());
  std::vector<double> off;
  std::vector<double> on;
  const auto timed = [&](bool recorded) {
    if (recorded) collector.start();
    pipeline.record(recorded ? &collector : nullptr);
    (recorded ? on : off).push_back(seconds_of_step(pipeline, batch));
    pipeline.record(nullptr);
    if (recorded) benchmark::DoNotOptimize(collector.stop());
  };
  for (int i = 0; i < 3; ++i) (void)seconds_of_step(pipeline, batch);
  for (auto _ : state)
    for (const bool recorded : {false, true, true, false}) timed(recorded);
  const Speedup ratio = paired_speedup(samples_of(on), samples_of(off));
  state.counters["percent"] = 100 * (ratio.estimate - 1);
  const Interval ends = ratio.ci95.value_or(ratio.range.value_or(Interval{1, 1}));
  state.counters["percent_low"] = 100 * (ends.low - 1);
  state.counters["percent_high"] = 100 * (ends.high - 1);
}

/// Median of b's time minus a's, of steps in turns a, b, b, a [s].
template <typename A, typename B>
double paired_difference(benchmark::State& state, const A& a, const B& b) {
  std::vector<double> differences;
  for (int i = 0; i < 3; ++i) (void)(a() + b());
  for (auto _ : state) {
    const double first = a(), second = b(), third = b(), last = a();
    differences.push_back((second + third - first - last) / 2);
  }
  return median(std::move(differences));
}

Pipeline busy_pipeline(int layers, int devices, int microbatches, std::chrono::microseconds work, std::int64_t width) {
  PlanOptions options;
  const auto cores = available_cores();
  for (int d = 0; d < devices; ++d) options.devices.push_back("cpu:" + std::to_string(cores.at(as_index(d))));
  options.batch = microbatches;
  options.layers = layers;
  options.stages = layers;
  options.virtual_stages = layers / devices;
  options.microbatches = microbatches;
  options.schedule = "gpipe";
  return {busy_chain(layers, work, width), make_plan(options)};
}

/// Forwards and backwards of `state.range(0)` microseconds on one device, beside a plain loop over the same micro-batches.
void action_overhead(benchmark::State& state) {
  constexpr int kMicrobatches = 64;
  const std::chrono::microseconds work(state.range(0));
  Model model = busy_chain(1, work, 16);
  const Batch batch = synthetic_batch(model.sample(), kMicrobatches, 0);
  Pipeline pipeline = busy_pipeline(1, 1, kMicrobatches, work, 16);
  profiler::DeviceWorker worker(make_device(parse_device(first_core())));
  const auto plain = [&] {
    double seconds = 0;
    worker.run([&] {
      const auto start = std::chrono::steady_clock::now();
      for (const NamedTensor& parameter : model.parameters()) at::Tensor(parameter.tensor).mutable_grad().reset();
      for (int m = 0; m < kMicrobatches; ++m) {
        const at::Tensor loss = model.loss()(forward_all(model, samples_of(batch.inputs, m, 1), {}), batch.target);
        loss.backward(at::full_like(loss, 1.0 / kMicrobatches));
      }
      seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    });
    return seconds;
  };
  const double difference = paired_difference(state, plain, [&] { return seconds_of_step(pipeline, batch); });
  state.counters["us_per_action"] = difference / (2 * kMicrobatches) * 1e6;
}

/// One micro-batch through layers of `state.range(0)` microseconds, each on another core than the one before, beside the same on one core:
/// what is exposed of handing over `state.range(1)` bytes.
void exposed_hand_over(benchmark::State& state) {
  constexpr int kLayers = 8;
  if (available_cores().size() < 2) return state.SkipWithError("needs two cores");
  const std::chrono::microseconds work(state.range(0));
  const std::int64_t width = state.range(1) / 4;
  Pipeline here = busy_pipeline(kLayers, 1, 1, work, width), across = busy_pipeline(kLayers, 2, 1, work, width);
  const Batch batch = synthetic_batch(busy_chain(1, work, width).sample(), 1, 0);
  const double difference = paired_difference(
      state, [&] { return seconds_of_step(here, batch); }, [&] { return seconds_of_step(across, batch); });
  state.counters["us_per_boundary"] = difference / (2 * (kLayers - 1)) * 1e6;
}

void copy_lane_bandwidth(benchmark::State& state) {
  const auto cores = available_cores();
  profiler::CopyLane lane(make_device(parse_device(first_core())), make_device(parse_device("cpu:" + std::to_string(cores.back()))), {});
  const at::Tensor tensor = at::zeros({state.range(0) / 4});
  for (auto _ : state) {
    std::promise<void> done;
    lane.copy(
        {tensor}, [&](auto) { done.set_value(); }, [&](const std::exception_ptr& error) { done.set_exception(error); });
    done.get_future().get();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

BENCHMARK(plain_loop)->Arg(1)->Arg(4)->UseRealTime()->Unit(benchmark::kMillisecond)->MinTime(3);
BENCHMARK(runtime)->Arg(1)->Arg(4)->UseRealTime()->Unit(benchmark::kMillisecond)->MinTime(3);
BENCHMARK(recording_cost)->UseRealTime()->Unit(benchmark::kMillisecond)->Iterations(30);
BENCHMARK(action_overhead)->Arg(50)->UseRealTime()->Unit(benchmark::kMillisecond)->Iterations(100);
BENCHMARK(exposed_hand_over)
    ->ArgsProduct({{50, 1000, 5000}, {4 << 10, 512 << 10}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(60);
BENCHMARK(copy_lane_bandwidth)->Range(4 << 10, 16 << 20)->UseRealTime();

}  // namespace
}  // namespace mptune::testing

int main(int argc, char** argv) {
  mptune::install_cpu_accounting();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
