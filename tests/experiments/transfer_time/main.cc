// transfer_time [FROM TO [LINK [MODEL [ROUNDS [FOLDER]]]]]
// Measures copies from device FROM to device TO by size, and how much communication is exposed in a pipelined training step of MODEL.
#include <mptune/mptune.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "profiler/base/units.h"
#include "profiler/device/cpu_allocator.h"
#include "profiler/measure/link_timing.h"
#include "profiler/trace/analyze/breakdown.h"
#include "profiler/trace/statistics/samples.h"
#include "reports/render/units.h"
#include "tests/support/svg.h"

namespace {

constexpr std::int64_t kSmallest = 1 << 10;
constexpr std::int64_t kLargest = 64 << 20;

// Each round measures all sizes, so that a disturbance does not affect only one size.
void sweep(const std::string& from, const std::string& to, const mptune::LinkThrottle& link, int rounds, const std::string& folder) {
  const auto source = mptune::make_device(mptune::parse_device(from)), destination = mptune::make_device(mptune::parse_device(to));
  std::vector<mptune::Samples> seconds;
  std::vector<mptune::profiler::CopyTime> medians;
  for (int round = 0; round < rounds; ++round) {
    medians = mptune::profiler::sweep_link(source, destination, link, 1, kSmallest, kLargest);
    seconds.resize(medians.size());
    for (std::size_t i = 0; i < medians.size(); ++i) seconds[i].values.push_back({.value = medians[i].seconds, .round = round});
  }
  for (std::size_t i = 0; i < medians.size(); ++i) medians[i].seconds = mptune::median(seconds[i]);
  const mptune::LinkCost line = mptune::profiler::fit_link(medians);

  std::printf("copies from %s to %s, median of %d\n%10s %10s %22s %12s %12s\n", from.c_str(), to.c_str(), rounds, "size", "time", "95 %",
              "bandwidth", "line");
  mptune::testing::SvgSeries measured{"measured", {}, {}}, fitted{"latency and bandwidth", {}, {}};
  mptune::testing::SvgChart chart{"Copies from " + from + " to " + to, "GB/s", "size of a copy", {}, {}};
  for (std::size_t i = 0; i < medians.size(); ++i) {
    const auto bytes = static_cast<double>(medians[i].bytes);
    const std::optional<mptune::Interval> ci95 = mptune::interval95(seconds[i]);
    const double predicted = line.latency_s + bytes / line.bytes_per_second;
    std::printf("%10s %10s %22s %12s %12s\n", mptune::format_bytes(medians[i].bytes).c_str(),
                mptune::format_seconds(medians[i].seconds).c_str(), mptune::reports::interval_cell(ci95).c_str(),
                mptune::format_bandwidth(bytes / medians[i].seconds).c_str(), mptune::format_seconds(predicted).c_str());
    chart.categories.push_back(mptune::format_bytes(medians[i].bytes));
    measured.values.push_back(1e-9 * bytes / medians[i].seconds);
    measured.ci95.emplace_back();
    if (ci95) measured.ci95.back() = mptune::Interval{1e-9 * bytes / ci95->high, 1e-9 * bytes / ci95->low};
    fitted.values.push_back(1e-9 * bytes / predicted);
  }
  chart.series = {measured, fitted};
  std::printf("time = %s + size / %s\n", mptune::format_seconds(line.latency_s).c_str(),
              mptune::format_bandwidth(line.bytes_per_second).c_str());
  const std::string picture = folder + "/transfer_time.svg";
  if (!(std::ofstream(picture) << mptune::testing::svg_curve(chart)))
    throw mptune::Error("can't be written", picture, "name a writable folder");
}

// Records steps of two stages with 8 micro-batches, and prints how much of their copies is hidden and exposed.
void exposed(const std::string& from, const std::string& to, const mptune::LinkThrottle& link, const std::string& text, int steps) {
  mptune::Model model = mptune::load_model(text, "", 0).model;
  mptune::PlanOptions options;
  options.devices = {from, to};
  options.batch = 32;
  options.layers = model.size();
  options.microbatches = 8;
  const mptune::Batch batch = mptune::synthetic_batch(model.sample(), options.batch, 0);
  mptune::PipelineOptions how;
  how.link = link;
  mptune::Pipeline pipeline(std::move(model), mptune::make_plan(options), how);
  mptune::HostCollector collector(pipeline.trace_devices());
  for (int warm_up = 0; warm_up < 2; ++warm_up) pipeline.step(batch.inputs, batch.target);
  collector.start();
  pipeline.record(&collector);
  for (int step = 0; step < steps; ++step) {
    const auto began = std::chrono::steady_clock::now();
    pipeline.step(batch.inputs, batch.target);
    collector.add_step(static_cast<int>(pipeline.steps()) - 1, began, std::chrono::steady_clock::now());
  }
  pipeline.record(nullptr);
  const mptune::profiler::Breakdown breakdown = mptune::profiler::break_down(collector.stop());

  std::printf("\na step of %s, %s\n%10s %12s %12s %12s %12s %14s\n", text.c_str(), mptune::describe(pipeline.plan()).c_str(), "", "step",
              "copies", "hidden", "exposed", "of the step");
  for (std::size_t d = 0; d < options.devices.size(); ++d) {
    const mptune::profiler::DeviceBreakdown mean = mptune::profiler::mean_over_steps(breakdown, static_cast<int>(d));
    const auto seconds = [](mptune::Nanoseconds time) { return std::chrono::duration<double>(time).count(); };
    // A copy is hidden while the device computes, and exposed otherwise.
    std::printf("%10s %12s %12s %12s %12s %14s\n", options.devices[d].c_str(), mptune::format_seconds(seconds(mean.window)).c_str(),
                mptune::format_seconds(seconds(mean.copy + mean.overlap)).c_str(), mptune::format_seconds(seconds(mean.overlap)).c_str(),
                mptune::format_seconds(seconds(mean.copy)).c_str(),
                mptune::format_percent(seconds(mean.copy) / seconds(mean.window)).c_str());
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> given(argv + 1, argv + argc),
      usual = {"cpu:0", "cpu:1", "", "transformer:d=256,layers=8,seq=64", "21", "."};
  const auto argument = [&](std::size_t i) { return i < given.size() ? given[i] : usual[i]; };
  mptune::install_cpu_accounting();
  mptune::prepare_gpus();
  const mptune::LinkThrottle link = mptune::parse_link(argument(2));
  const int rounds = std::stoi(argument(4));
  sweep(argument(0), argument(1), link, rounds, argument(5));
  exposed(argument(0), argument(1), link, argument(3), rounds);
  return 0;
} catch (const mptune::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return static_cast<int>(error.code());
} catch (const std::invalid_argument&) {  // what std::stoi throws
  std::fprintf(stderr, "usage: transfer_time [FROM TO [LINK [MODEL [ROUNDS [FOLDER]]]]], ROUNDS being a number\n");
  return 2;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
