// late_fusion [MODEL [INPUT [BATCH [ROUNDS]]]]
// Runs a model of two branches, each with its own input image, on two devices; a head joins them. Shows which tensors cross the cut
// between the branches, and that steps get shorter while gradients stay the same.
#include <mptune/mptune.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "profiler/device/cpu_allocator.h"
#include "profiler/statistics/verdict.h"

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

// Prints the tensors that are sent to the second branch's device for one sample.
void show_boundary(mptune::Model& model, const at::Tensor& input) {
  mptune::Tensors tensors{input.narrow(0, 0, 1)};
  for (int i = 0; i < first_of_second_branch(model); ++i)
    tensors = mptune::run_layer(model.layers()[static_cast<std::size_t>(i)], i, tensors, {.samples = 1});
  std::printf("between the branches %zu tensors cross for each sample:\n", tensors.size());
  for (const at::Tensor& tensor : tensors) {
    std::printf("  %8ld values, %s\n", static_cast<long>(tensor.numel()),
                tensor.requires_grad() ? "a gradient comes back" : "no gradient comes back");
  }
}

Contender contender(const std::string& name, const mptune::Model& model, int batch, int devices, int microbatches) {
  mptune::PlanOptions options;
  options.devices = {"cpu:0"};
  if (devices == 2) options.devices.push_back("cpu:1"), options.cuts = {first_of_second_branch(model)};
  options.batch = batch;
  options.layers = model.size();
  options.stages = devices;
  options.microbatches = microbatches;
  return {name, mptune::make_plan(options), nullptr, {}, 0};
}

bool same_gradients(const Contender& a, const Contender& b) {
  const auto left = a.pipeline->named_parameters(), right = b.pipeline->named_parameters();
  return std::ranges::equal(left, right, [](const auto& x, const auto& y) { return x.tensor.grad().equal(y.tensor.grad()); });
}

int run(const std::string& text, const std::string& input, int samples, int rounds) {
  mptune::Model model = mptune::load_model(text, input, 0).model;
  const mptune::Batch batch = mptune::synthetic_batch(model.sample(), samples, 0);
  show_boundary(model, batch.inputs[0]);

  std::vector<Contender> contenders;
  contenders.push_back(contender("one device", model, samples, 1, 1));
  contenders.push_back(contender("a branch on each, in turn", model, samples, 2, 1));
  contenders.push_back(contender("one device", model, samples, 1, kMicrobatches));
  contenders.push_back(contender("a branch on each, at once", model, samples, 2, kMicrobatches));
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
    std::printf("%-28s %14d %12.6f %7.0f ms  %.2fx [%.2f, %.2f]\n", each.name.c_str(), each.plan.num_microbatches(), each.loss,
                1e3 * mptune::median(each.step_s), speedup.estimate, speedup.ci95.low, speedup.ci95.high);
  }
  const bool same = same_gradients(contenders[0], contenders[1]) && same_gradients(contenders[2], contenders[3]);
  std::printf("gradients on two devices %s those on one with the same micro-batches\n", same ? "equal, bit for bit," : "DIFFER from");
  return same ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
  mptune::install_cpu_accounting();
  return run(argc > 1 ? argv[1] : "late-fusion:classes=10", argc > 2 ? argv[2] : "2x3x96x96", argc > 3 ? std::stoi(argv[3]) : 32,
             argc > 4 ? std::stoi(argv[4]) : 10);
} catch (const mptune::Error& error) {
  std::fprintf(stderr, "%s: %s; %s\n", error.what(), error.where().c_str(), error.remedy().c_str());
  return static_cast<int>(error.code());
} catch (const std::invalid_argument&) {  // what std::stoi throws
  std::fprintf(stderr, "usage: late_fusion [MODEL [INPUT [BATCH [ROUNDS]]]], the last two being numbers\n");
  return 2;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
