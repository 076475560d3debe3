// Runs plans one at a time, whichever another program asks for, so that their steps can be interleaved with those of other programs:
//   benchmark_plan_rounds MODEL INPUT BATCH STEPS PLAN...
// INPUT is that of `--input`, "" for the model's own; BATCH is the plans' global batch. Prints "ready" when every plan has run a step. Then
// each line of standard input is the index of a plan, answered by a line: the median seconds of STEPS steps (forward and backward) behind
// one of warm-up. Ends with its input. A plan over several ranks runs in as many processes of this program, which torchrun's variables tell
// their ranks; each gets the same input.
#include <charconv>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "planner/plan/file/plan_file.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/rank.h"
#include "profiler/device/cpu_allocator.h"
#include "profiler/device/list/device_list.h"
#include "profiler/model/loading/load_model.h"
#include "profiler/trace/statistics/samples.h"
#include "tuner/runtime/between/remote_device.h"
#include "tuner/runtime/pipeline.h"

using namespace mptune;

namespace {

/// A number from `least` to `most`.
int number_in(const std::string& text, const std::string& name, int least, int most) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most)
    throw Error("'" + text + "' is not a number from " + std::to_string(least) + " to " + std::to_string(most), name, "correct it");
  return value;
}

double median_step_s(Pipeline& pipeline, const Batch& batch, int steps) {
  (void)pipeline.step(batch.inputs, batch.target);
  std::vector<double> seconds;
  for (int i = 0; i < steps; ++i) seconds.push_back(pipeline.step(batch.inputs, batch.target).seconds);
  return median(std::move(seconds));
}

Pipeline pipeline_of(Model model, const PlanFile& file, int index) {
  const RankPlace place = rank_place();
  PipelineOptions options;
  if (ranks_of(file.plan.devices) > 1 && place.ranks > 1) options.ranks = join_ranks(place, {.name = std::to_string(index)});
  std::vector<std::shared_ptr<Device>> devices;
  for (const DeviceSpec& device : parse_device_names(file.plan.devices))
    devices.push_back(tuner::make_device_of(device, options.ranks.get()));
  return {std::move(model), file.plan, options, std::move(devices)};
}

int run(const std::vector<std::string>& words) {
  constexpr int kMost = 1 << 20;
  const int batch_size = number_in(words[2], "BATCH", 1, kMost);
  const int steps = number_in(words[3], "STEPS", 1, kMost);
  std::vector<Pipeline> pipelines;
  Batch batch;
  for (std::size_t i = 4; i < words.size(); ++i) {
    const PlanFile file = load_plan_file(words[i]);
    if (file.plan.global_batch_size() != batch_size)
      throw Error("the plan's batch is " + std::to_string(file.plan.global_batch_size()), words[i],
                  "name a plan with a batch of " + words[2], ExitCode::usage);
    Model model = load_model(words[0], words[1], 0).model;
    batch = synthetic_batch(model.sample(), batch_size, 0);
    pipelines.push_back(pipeline_of(std::move(model), file, static_cast<int>(i)));
    (void)pipelines.back().step(batch.inputs, batch.target);
  }
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    const int chosen = number_in(line, "index of a plan", 0, static_cast<int>(pipelines.size()) - 1);
    std::cout << median_step_s(pipelines[as_index(chosen)], batch, steps) << std::endl;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  install_cpu_accounting();
  std::cout.precision(9);
  if (argc < 6) {
    std::puts("usage: benchmark_plan_rounds MODEL INPUT BATCH STEPS PLAN...");
    return 2;
  }
  return run({argv + 1, argv + argc});
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return static_cast<int>(error.code());
}
