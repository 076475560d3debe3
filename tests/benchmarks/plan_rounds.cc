// Runs plans one at a time, whichever another program asks for, so that their steps can be interleaved with those of other programs:
//   benchmark_plan_rounds MODEL INPUT BATCH STEPS PLAN...
// INPUT is that of `--input`, "" for the model's own; BATCH is the plans' global batch. Prints "ready" when every plan has run a step. Then
// each line of standard input is the index of a plan, answered by a line: the median seconds of STEPS steps (forward and backward) behind
// one of warm-up. Ends with its input.
#include <charconv>
#include <cstdio>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "planner/plan_file.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/device/cpu_allocator.h"
#include "profiler/loading/load_model.h"
#include "profiler/statistics/samples.h"
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
    pipelines.emplace_back(std::move(model), file);
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
  std::fprintf(stderr, "%s: %s; %s\n", error.what(), error.where().c_str(), error.remedy().c_str());
  return static_cast<int>(error.code());
}
