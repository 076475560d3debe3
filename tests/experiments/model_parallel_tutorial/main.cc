// Repeats PyTorch's tutorial "Single-Machine Model Parallel Best Practices", and adds the plan that the planner picks from a profile.
#include <mptune/mptune.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "profiler/device/cpu_allocator.h"
#include "profiler/measure/measure.h"
#include "tests/experiments/model_parallel_tutorial/results.h"
#include "tuner/runtime/graph/capabilities.h"

namespace {
constexpr int kTutorialBatch = 120;
constexpr int kTutorialSplits[] = {1, 3, 5, 8, 10, 12, 20, 40, 60};

mptune::PlanOptions stages_of(int stages, const mptune::Model& model, int batch) {
  mptune::PlanOptions options;
  options.devices = {"cpu:0"};
  options.batch = batch;
  options.layers = model.size();
  options.stages = stages;
  options.microbatches = 1;
  options.schedule = "naive";
  if (stages == 1) return options;
  options.devices.push_back("cpu:1");
  options.cuts = mptune::equal_cuts(model.size(), 2);
  for (int i = 1; i < model.size(); ++i)
    if (model.layers()[static_cast<std::size_t>(i)].name == "layer3.0") options.cuts = {i};  // where the tutorial cuts ResNet-50
  return options;
}

// The plan that mptune tune would measure first, restricted to the tutorial's two stages.
mptune::Plan planned(const mptune::Model& model, const mptune::Batch& batch, const mptune::PlanOptions& stages, double budget_s) {
  mptune::profiler::MeasureOptions how;
  how.devices = mptune::parse_devices("cpu:0,cpu:1");
  how.batch = stages.batch;
  how.budget_s = budget_s;
  mptune::SearchSpace space;
  space.devices = stages.devices;
  space.batch = stages.batch;
  space.stage_counts = {2};
  space.virtual_counts = {1};
  space.cuts = {stages.cuts};
  space.recompute = "none";
  space.replicas = {1, 1};
  space.capabilities = mptune::tuner::kRuntime;
  return mptune::search_plans(space, mptune::CostModel(mptune::profiler::measure_profile(model, batch, how))).ranked.at(0).plan;
}

std::vector<Contender> contenders_of(const mptune::Model& model, const mptune::Batch& batch, int samples, double budget_s) {
  std::vector<Contender> contenders;
  contenders.push_back({"single device", 0, mptune::make_plan(stages_of(1, model, samples)), nullptr, {}});
  mptune::PlanOptions options = stages_of(2, model, samples);
  contenders.push_back({"naive model parallel", 0, mptune::make_plan(options), nullptr, {}});
  const mptune::Plan choice = planned(model, batch, options, budget_s);
  options.microbatches = 0;
  options.schedule = "1f1b";
  for (const int split : kTutorialSplits) {
    options.split_size = std::max(1, (split * samples + kTutorialBatch / 2) / kTutorialBatch);
    if (options.split_size == contenders.back().split_size) continue;
    contenders.push_back({"split size " + std::to_string(options.split_size), options.split_size, mptune::make_plan(options), nullptr, {}});
  }
  contenders.push_back({"the tuner's choice", 0, choice, nullptr, {}});
  return contenders;
}

// A training step as the tutorial times it: forward, backward, optimizer.
double step_seconds(mptune::Pipeline& pipeline, const mptune::Batch& batch) {
  const auto began = std::chrono::steady_clock::now();
  pipeline.step(batch.inputs, batch.target);
  pipeline.on_stages([&](int stage) {
    const at::NoGradGuard no_grad;
    for (at::Tensor parameter : pipeline.parameters(stage)) parameter.add_(parameter.grad(), -0.001);
  });
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

// Measures all plans in each round, every second round in reverse order, so that drift affects all alike. The first round is warm-up.
// After three rounds, plans that take more than twice the time of the fastest are left out: they would take most of the time.
void measure(std::vector<Contender>& contenders, const std::string& model, const std::string& input, const mptune::Batch& batch,
             int rounds) {
  double fastest = 1e9;
  for (int round = -1; round < rounds; ++round) {
    for (std::size_t position = 0; position < contenders.size(); ++position) {
      Contender& contender = contenders[round % 2 == 0 ? position : contenders.size() - 1 - position];
      if (round < 0) contender.pipeline = std::make_unique<mptune::Pipeline>(mptune::load_model(model, input, 0).model, contender.plan);
      if (round >= 3 && mptune::median(contender.step_s) > 2 * fastest) continue;
      const double seconds = step_seconds(*contender.pipeline, batch);
      if (round >= 0) contender.step_s.values.push_back({.value = seconds, .round = round});
      if (round >= 0) fastest = std::min(fastest, seconds);
    }
    std::fprintf(stderr, "round %d of %d\n", round + 1, rounds);
  }
}
}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> given(argv + 1, argv + argc), usual = {"resnet50", "3x64x64", "96", "10", "50", "."};
  const auto argument = [&](std::size_t i) { return i < given.size() ? given[i] : usual[i]; };
  mptune::install_cpu_accounting();
  const mptune::Model model = mptune::load_model(argument(0), argument(1), 0).model;
  const mptune::Batch batch = mptune::synthetic_batch(model.sample(), std::stoi(argument(2)), 0);
  std::vector<Contender> contenders = contenders_of(model, batch, std::stoi(argument(2)), std::stod(argument(4)));
  measure(contenders, argument(0), argument(1), batch, std::stoi(argument(3)));
  show_results(contenders, model.name(), argument(5));
} catch (const mptune::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return static_cast<int>(error.code());
} catch (const std::invalid_argument&) {  // what std::stoi throws
  std::fprintf(stderr, "usage: model_parallel_tutorial [MODEL [INPUT [BATCH [ROUNDS [SECONDS [FOLDER]]]]]], numbers in the middle\n");
  return 2;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
