// late_fusion [MODEL [INPUT [BATCH [ROUNDS]]]]
// Runs a model of two branches, each with its own input image, on two devices; a head joins them. Shows that steps get shorter while
// gradients stay the same, even with one micro-batch: branches do not wait for each other.
#include <mptune/mptune.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "profiler/device/cpu_allocator.h"
#include "profiler/trace/statistics/verdict.h"

namespace {

constexpr int kMicrobatches = 4;

struct Contender {
  std::string name;
  mptune::Plan plan;
  std::unique_ptr<mptune::Pipeline> pipeline;
  mptune::Samples step_s;
  double loss = 0;
};

int first_of_second_branch(const mptune::Model& model) {
  const auto found = std::ranges::find_if(model.layers(), [](const auto& layer) { return layer.name.starts_with("second."); });
  return static_cast<int>(found - model.layers().begin());
}

Contender contender(const std::string& name, const mptune::Model& model, int batch, mptune::PlanOptions options) {
  options.devices = {"cpu:0"};
  if (options.stages > 1) options.devices.push_back("cpu:1");
  options.batch = batch;
  options.layers = model.size();
  return {name, mptune::make_plan(options), nullptr, {}, 0};
}

// Stage 0 is the first branch, stage 1 the second, stage 2 the head that joins them:
//
//     cpu:0   0F0 0F1 0B0 0F2 0B1 ..
//     cpu:1   1F0 2F0 2B0 1B0 1F1 2F1 2B1 1B1 ..
mptune::PlanOptions branches_at_once(const mptune::Model& model, int microbatches) {
  using mptune::ActionKind;
  mptune::PlanOptions options;
  options.stages = 3;
  options.cuts = {first_of_second_branch(model), model.size() - 1};
  options.microbatches = microbatches;
  options.schedule.clear();
  options.actions = {{{0, ActionKind::forward, 0}}, {}};
  for (int i = 0; i < microbatches; ++i) {
    if (i + 1 < microbatches) options.actions[0].push_back({0, ActionKind::forward, i + 1});
    options.actions[0].push_back({0, ActionKind::backward, i});
    for (const int stage : {1, 2}) options.actions[1].push_back({stage, ActionKind::forward, i});
    for (const int stage : {2, 1}) options.actions[1].push_back({stage, ActionKind::backward, i});
  }
  return options;
}

// The head in one stage with the second branch, which waits for the first branch's feature.
mptune::PlanOptions branches_in_turn(const mptune::Model& model, int microbatches) {
  mptune::PlanOptions options;
  options.stages = 2;
  options.cuts = {first_of_second_branch(model)};
  options.microbatches = microbatches;
  return options;
}

mptune::PlanOptions one_device(int microbatches) {
  mptune::PlanOptions options;
  options.stages = 1;
  options.microbatches = microbatches;
  return options;
}

bool same_gradients(const Contender& a, const Contender& b) {
  const auto left = a.pipeline->named_parameters(), right = b.pipeline->named_parameters();
  return std::ranges::equal(left, right, [](const auto& x, const auto& y) { return x.tensor.grad().equal(y.tensor.grad()); });
}

int run(const std::string& text, const std::string& input, int samples, int rounds) {
  const mptune::Model model = mptune::load_model(text, input, 0).model;
  const mptune::Batch batch = mptune::synthetic_batch(model.sample(), samples, 0);

  std::vector<Contender> contenders;
  for (const int m : {1, kMicrobatches}) {
    contenders.push_back(contender("one device", model, samples, one_device(m)));
    contenders.push_back(contender("stages in turn, as a chain", model, samples, branches_in_turn(model, m)));
    contenders.push_back(contender("a branch on each, at once", model, samples, branches_at_once(model, m)));
  }
  for (Contender& each : contenders)
    each.pipeline = std::make_unique<mptune::Pipeline>(mptune::load_model(text, input, 0).model, each.plan);
  for (int round = -1; round < rounds; ++round) {
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      Contender& each = contenders[round % 2 == 0 ? i : contenders.size() - 1 - i];
      const mptune::StepResult result = each.pipeline->step(batch.inputs, batch.target);
      each.loss = result.loss;
      if (round >= 0) each.step_s.values.push_back({.value = result.seconds, .round = round});
    }
  }
  std::printf("%-28s %14s %12s %10s  %s\n", "", "micro-batches", "loss", "step", "speed-up");
  for (const Contender& each : contenders) {
    const mptune::Speedup speedup = mptune::paired_speedup(contenders[0].step_s, each.step_s);
    std::printf("%-28s %14d %12.6f %7.0f ms  %.2fx", each.name.c_str(), each.plan.num_microbatches(), each.loss,
                1e3 * mptune::median(each.step_s), speedup.estimate);
    if (speedup.ci95) std::printf(" [%.2f, %.2f]", speedup.ci95->low, speedup.ci95->high);
    std::printf("\n");
  }
  bool same = true;
  for (const std::size_t other : {1, 2, 4, 5}) same = same && same_gradients(contenders[other / 3 * 3], contenders[other]);
  std::printf("gradients on two devices %s those on one with the same micro-batches\n", same ? "equal, bit for bit," : "DIFFER from");
  return same ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
  mptune::install_cpu_accounting();
  return run(argc > 1 ? argv[1] : "late-fusion:classes=10", argc > 2 ? argv[2] : "2x3x96x96", argc > 3 ? std::stoi(argv[3]) : 32,
             argc > 4 ? std::stoi(argv[4]) : 10);
} catch (const mptune::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return static_cast<int>(error.code());
} catch (const std::invalid_argument&) {  // what std::stoi throws
  std::fprintf(stderr, "usage: late_fusion [MODEL [INPUT [BATCH [ROUNDS]]]], the last two being numbers\n");
  return 2;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
