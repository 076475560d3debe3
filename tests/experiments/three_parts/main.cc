// three_parts [MODEL [BATCH [STEPS [SECONDS]]]]
// Trains encoder, decoder and classifier, each with its own optimizer, on one device and on two.
#include <mptune/mptune.h>
#include <mptune/nn.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "profiler/device/cpu_allocator.h"
#include "profiler/measure/measure.h"
#include "profiler/measure/sleep_model.h"
#include "profiler/trace/statistics/samples.h"

namespace {
constexpr int kMicrobatches = 8;
// Cuts between the parts: the first layer of each part but the first.
std::vector<int> first_layers(const mptune::Model& model) {
  std::vector<int> first;
  const auto part = [&](int i) {
    const std::string& name = model.layers()[static_cast<std::size_t>(i)].name;
    return name.substr(0, name.find('.'));
  };
  for (int i = 1; i < model.size(); ++i)
    if (part(i) != part(i - 1)) first.push_back(i);
  if (first.size() != 2) throw mptune::Error("the model has no three parts", model.name(), "name encoder-decoder-classifier");
  return first;
}

mptune::Plan plan_on(const std::vector<std::string>& devices, std::vector<int> cuts, const mptune::Model& model, int batch) {
  mptune::PlanOptions options;
  options.devices = devices;
  options.batch = batch;
  options.layers = model.size();
  options.stages = static_cast<int>(devices.size());
  options.cuts = std::move(cuts);
  options.microbatches = kMicrobatches;
  return mptune::make_plan(options);
}

std::vector<at::Tensor> parameters_of(const mptune::Pipeline& pipeline, const std::string& part) {
  std::vector<at::Tensor> parameters;
  for (const mptune::NamedTensor& named : pipeline.named_parameters())
    if (named.name.starts_with(part + ".")) parameters.push_back(named.tensor);
  return parameters;
}

// Trains on four batches in turn, with an optimizer per part, on whatever devices the part is. Returns the losses.
std::vector<double> train(const std::string& text, const mptune::Plan& plan, int steps) {
  mptune::Model model = mptune::load_model(text, "", 0).model;
  std::vector<mptune::Batch> batches;
  for (std::uint64_t seed = 0; seed < 4; ++seed) batches.push_back(mptune::synthetic_batch(model.sample(), plan.global_batch_size(), seed));
  mptune::Pipeline pipeline(std::move(model), plan);
  torch::optim::SGD encoder(parameters_of(pipeline, "encoder"), torch::optim::SGDOptions(0.02).momentum(0.9));
  torch::optim::Adam decoder(parameters_of(pipeline, "decoder"), torch::optim::AdamOptions(2e-3));
  torch::optim::AdamW classifier(parameters_of(pipeline, "classifier"), torch::optim::AdamWOptions(5e-3));
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    const mptune::Batch& batch = batches[static_cast<std::size_t>(step % 4)];
    losses.push_back(pipeline.step(batch.inputs, batch.target).loss);
    encoder.step();
    decoder.step();
    classifier.step();
  }
  return losses;
}

double sleeping_step(const mptune::Profile& profile, const mptune::Plan& plan, const mptune::Batch& batch) {
  mptune::Pipeline pipeline(mptune::profiler::make_sleep_model(profile), plan);
  std::vector<double> seconds;
  for (int i = 0; i < 25; ++i) seconds.push_back(pipeline.step(batch.inputs, batch.target).seconds);
  return mptune::median(std::move(seconds));
}

int run(const std::string& text, int samples, int steps, double budget_s) {
  if (steps < 1) throw mptune::Error("no step to train", "STEPS", "give 1 or more");
  const mptune::Model model = mptune::load_model(text, "", 0).model;
  const mptune::Batch batch = mptune::synthetic_batch(model.sample(), samples, 0);
  const std::vector<int> parts = first_layers(model);
  const auto one = train(text, plan_on({"cpu:0"}, {}, model, samples), steps);
  const auto two = train(text, plan_on({"cpu:0", "cpu:1"}, {parts[0]}, model, samples), steps);
  std::printf("%6s  %12s  %12s\n", "step", "one device", "two devices");
  for (std::size_t i = 0; i < one.size(); i += std::max<std::size_t>(1, one.size() / 5))
    std::printf("%6zu  %12.6f  %12.6f\n", i, one[i], two[i]);
  std::printf("after %d steps %.6f and %.6f: %s\n\n", steps, one.back(), two.back(),
              one == two ? "equal in every bit, at every step" : "they DIFFER");

  mptune::profiler::MeasureOptions how;
  how.devices = mptune::parse_devices("sleep:3");
  how.batch = samples;
  how.budget_s = budget_s;
  const mptune::Profile profile = mptune::profiler::measure_profile(model, batch, how);
  const double alone = sleeping_step(profile, plan_on({"sleep:0"}, {}, model, samples), batch);
  std::printf("%-46s %10s %9s\n", "where the parts are, on sleeping devices", "step", "speed-up");
  const auto row = [&](const char* at, double s) { std::printf("%-46s %7.1f ms %8.2fx\n", at, 1e3 * s, alone / s); };
  row("encoder, decoder, classifier", alone);
  row("encoder | decoder, classifier", sleeping_step(profile, plan_on({"sleep:0", "sleep:1"}, {parts[0]}, model, samples), batch));
  row("encoder, decoder | classifier", sleeping_step(profile, plan_on({"sleep:0", "sleep:1"}, {parts[1]}, model, samples), batch));
  row("encoder | decoder | classifier", sleeping_step(profile, plan_on({"sleep:0", "sleep:1", "sleep:2"}, parts, model, samples), batch));
  return one == two ? 0 : 1;
}
}  // namespace

int main(int argc, char** argv) try {
  mptune::install_cpu_accounting();
  return run(argc > 1 ? argv[1] : "encoder-decoder-classifier", argc > 2 ? std::stoi(argv[2]) : 64, argc > 3 ? std::stoi(argv[3]) : 100,
             argc > 4 ? std::stod(argv[4]) : 15);
} catch (const mptune::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return static_cast<int>(error.code());
} catch (const std::invalid_argument&) {  // what std::stoi throws
  std::fprintf(stderr, "usage: three_parts [MODEL [BATCH [STEPS [SECONDS]]]], the last three being numbers\n");
  return 2;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
