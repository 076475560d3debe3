// compare_exported MODEL.pt2 REFERENCE [HOW]: runs an exported program and compares loss, gradients and buffers with those that Python's
// eager PyTorch left in REFERENCE. HOW: none (one piece), useful (a chain of its layers; the default), positions such as 3,17, or stages:
// one piece, then a pipeline of three stages and four micro-batches against mptune's own un-pipelined step.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdio>

#include "exported_chain.h"
#include "planner/search/make_plan.h"
#include "profiler/base/device_spec.h"
#include "profiler/base/error.h"
#include "profiler/base/text.h"
#include "profiler/device/device.h"
#include "profiler/device/list/device_list.h"
#include "profiler/model/layers/model.h"
#include "profiler/model/loading/load_model.h"
#include "tuner/runtime/pipeline.h"

namespace mptune::profiler {
namespace {

using testing::Agreement;
using testing::EagerStep;

constexpr double kTolerance = 1e-5, kCancelled = 1e-3;
constexpr int kStages = 3, kMicrobatches = 4;

std::vector<int> cuts_of(const std::string& text, const BoundProgram& program) {
  if (text == "none") return {};
  if (text == "useful") return program.cuts.useful();
  std::vector<int> cuts;
  for (const std::string& part : split(text, ',')) cuts.push_back(static_cast<int>(integer(part).value()));
  return cuts;
}

bool compare_chain(const std::string& model, const EagerStep& expected, const std::string& cuts) {
  const ExportedArchive archive = read_exported_archive(model);
  const auto program = std::make_shared<const BoundProgram>(archive.program, model, expected.inputs.at(0).size(0));
  testing::ExportedChain chain(program, archive.tensors, cuts_of(cuts, *program));
  at::manual_seed(7);
  chain.step(expected.inputs);
  const Agreement agreement = chain.compare(expected);
  std::printf("%d nodes in %zu layers: %d tensors equal, %d not, furthest %.1e %s", program->graph.nodes(), chain.size(), agreement.equal,
              agreement.different, agreement.worst, agreement.worst_name.c_str());
  return agreement.worst <= (cuts == "none" ? 0 : kTolerance);
}

Model model_of(const std::string& path) {
  Model model = load_model(path, "", 0).model;
  const Loss loss = model.loss().name() == "model" ? model.loss() : Loss::mean_square();
  return {model.name(), std::move(model.layers()), loss, model.sample(), model.default_batch()};
}

bool couples_samples(const Model& model) {
  return std::any_of(model.layers().begin(), model.layers().end(),
                     [](const ModelLayer& layer) { return layer.layer->has_batch_statistics(); });
}

/// One thread a device, on the cores there are: numerics need no cores of their own.
std::vector<std::shared_ptr<Device>> devices_of(const Plan& plan) {
  const std::vector<int> cores = available_cores();
  std::vector<std::shared_ptr<Device>> devices;
  for (std::size_t i = 0; i < plan.devices.size(); ++i) {
    DeviceSpec spec;
    spec.name = plan.devices[i];
    spec.cores = {cores[i % cores.size()]};
    devices.push_back(make_device(spec));
  }
  return devices;
}

EagerStep pipelined(Model model, const Tensors& inputs, int stages, int microbatches) {
  PlanOptions options;
  for (int i = 0; i < stages; ++i) options.devices.push_back("cpu:" + std::to_string(i));
  options.batch = static_cast<int>(inputs.at(0).size(0));
  options.layers = model.size();
  options.stages = stages;
  options.microbatches = microbatches;
  const Plan plan = make_plan(options);
  Pipeline pipeline(std::move(model), plan, {}, devices_of(plan));
  EagerStep step;
  step.loss = at::scalar_tensor(pipeline.step(inputs, {}).loss, at::kDouble);
  for (const NamedTensor& parameter : pipeline.named_parameters())
    if (parameter.tensor.grad().defined()) step.gradients[parameter.name] = parameter.tensor.grad().clone();
  for (const NamedTensor& buffer : pipeline.named_buffers()) step.buffers[buffer.name] = buffer.tensor.clone();
  return step;
}

/// Where batch norms couple the samples of a micro-batch, the un-pipelined step has the same micro-batches, else none.
bool compare_stages(const std::string& path, const Tensors& inputs) {
  const Model model = model_of(path);
  const bool coupled = couples_samples(model);
  const EagerStep whole = pipelined(model_of(path), inputs, 1, coupled ? kMicrobatches : 1);
  const EagerStep split = pipelined(model_of(path), inputs, kStages, kMicrobatches);
  Agreement agreement;
  // Gradients that cancel to zero, as those of the biases of attention's keys, leave the rounding of larger ones.
  for (const auto& [name, gradient] : whole.gradients)
    agreement.least = std::max(agreement.least, kCancelled * gradient.abs().max().item<double>());
  agreement.add("loss", split.loss, whole.loss);
  for (const auto& [name, gradient] : whole.gradients) {
    const auto found = split.gradients.find(name);
    agreement.add("gradient of " + name, found == split.gradients.end() ? at::zeros_like(gradient) : found->second, gradient);
  }
  for (const auto& [name, buffer] : whole.buffers) agreement.add("buffer " + name, split.buffers.at(name), buffer);
  std::printf("; %d layers in %d stages%s: %d tensors equal, %d not, furthest %.1e %s", model.size(), kStages,
              coupled ? ", batch norm" : "", agreement.equal, agreement.different, agreement.worst, agreement.worst_name.c_str());
  return agreement.worst <= kTolerance;
}

int compare(const std::string& model, const std::string& reference, const std::string& how) {
  at::set_num_threads(1);
  const EagerStep expected = testing::read_eager_step(reference);
  const bool chain = compare_chain(model, expected, how == "stages" ? "none" : how);
  const bool stages = how != "stages" || compare_stages(model, expected.inputs);
  std::printf("\n");
  return chain && stages ? 0 : 1;
}

}  // namespace
}  // namespace mptune::profiler

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  try {
    return mptune::profiler::compare(argv[1], argv[2], argc > 3 ? argv[3] : "useful");
  } catch (const mptune::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  return 2;
}
