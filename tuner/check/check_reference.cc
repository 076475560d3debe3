#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <torch/version.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <utility>

#include "profiler/base/error.h"
#include "profiler/model/exported/archive.h"
#include "profiler/model/program/exported_reference.h"
#include "tuner/check/check.h"
#include "tuner/check/check_limits.h"
#include "tuner/check/check_operation.h"
#include "tuner/check/compared_tensors.h"

namespace mptune::tuner {
namespace {

/// Seeds LibTorch's generator; its state is restored afterwards.
class SeededGenerator {
 public:
  explicit SeededGenerator(std::int64_t seed) : generator_(at::detail::getDefaultCPUGenerator()) {
    const std::lock_guard lock(generator_.mutex());
    state_ = generator_.get_state();
    generator_.set_current_seed(static_cast<std::uint64_t>(seed));
  }
  ~SeededGenerator() {
    const std::lock_guard lock(generator_.mutex());
    generator_.set_state(state_);
  }
  SeededGenerator(const SeededGenerator&) = delete;
  SeededGenerator& operator=(const SeededGenerator&) = delete;

 private:
  at::Generator generator_;
  at::Tensor state_;
};

/// One training step of the program in one piece.
struct ProgramStep {
  std::shared_ptr<const profiler::BoundProgram> program;
  std::unique_ptr<Layer> layer;
  at::Tensor loss;
};

ProgramStep step_of(const profiler::ExportedArchive& archive, const profiler::ExportedReference& reference, const std::string& path) {
  ProgramStep step;
  const std::int64_t samples = archive.sample_inputs[0].dim() > 0 ? archive.sample_inputs[0].size(0) : 1;
  step.program = std::make_shared<const profiler::BoundProgram>(archive.program, path, std::max<std::int64_t>(1, samples));
  step.layer = profiler::make_exported_layer(step.program, 0, step.program->graph.nodes(), archive.tensors);
  RunContext context;
  context.samples = samples;
  const SeededGenerator seeded(reference.seed);
  const ThreadCount as_many_as_python(reference.threads > 0 ? reference.threads : at::get_num_threads());
  const Tensors outputs = step.layer->forward(archive.sample_inputs, context);
  if (outputs.empty()) throw Error("the program returns no tensor", path, "return the loss or the prediction first");
  step.loss = reference.loss_in_program ? outputs[0] : outputs[0].to(at::kFloat).square().mean();
  if (step.loss.dim() != 0)
    throw Error("the reference says that the program returns its loss, and it returns a tensor", path, "export the model again");
  if (step.loss.requires_grad()) step.loss.backward();
  std::vector<std::vector<BatchStatistics>> by_norm;
  for (BatchStatistics& norm : step.layer->take_statistics()) by_norm.push_back({std::move(norm)});
  step.layer->commit_statistics(by_norm);
  return step;
}

at::Tensor norm_of(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.detach().abs().to(at::kDouble).norm() : at::scalar_tensor(0, at::kDouble);
}

at::Tensor number(double value) {
  return at::scalar_tensor(value, at::kDouble);
}

/// Returns the step's parameters by every name that the file has for them: a tied parameter may have another name in Python than in the
/// program.
std::map<std::string, NamedTensor> by_every_name(const profiler::ExportedArchive& archive, const ProgramStep& step) {
  std::map<std::string, NamedTensor> named;
  for (const NamedTensor& parameter : step.layer->parameters()) {
    const auto stored = archive.tensors.find(parameter.name);
    for (const auto& [name, tensor] : archive.tensors)
      if (stored != archive.tensors.end() && tensor.is_alias_of(stored->second) && tensor.sizes() == stored->second.sizes())
        named.insert_or_assign(name, parameter);
    named.insert_or_assign(parameter.name, parameter);
  }
  return named;
}

double least_scale_of(const std::map<std::string, double>& norms) {
  double largest = 0;
  for (const auto& [name, norm] : norms) largest = std::max(largest, std::abs(norm));
  return kLeastGradientScale * largest;
}

/// Returns the number of the last operator that reads a parameter. Backward reaches later operators first.
int last_reader(const ProgramStep& step, const std::string& name) {
  const profiler::ExportedProgram& program = step.program->program;
  for (std::size_t i = 0; i < program.inputs.size(); ++i)
    if (const auto* value = std::get_if<profiler::ProgramValue>(&program.graph.inputs[i]);
        value != nullptr && program.inputs[i].name == name)
      return step.program->cuts.last_use(value->index);
  return -1;
}

void add_gradient_norms(ComparedTensors& compared, const profiler::ExportedArchive& archive, const profiler::ExportedReference& reference,
                        const ProgramStep& step) {
  const double least_scale = least_scale_of(reference.gradient_norms);
  const std::map<std::string, NamedTensor> parameters = by_every_name(archive, step);
  std::vector<std::string> names;
  for (const auto& [name, norm] : reference.gradient_norms) names.push_back(name);
  const auto reader = [&](const std::string& name) {
    const auto found = parameters.find(name);
    return found == parameters.end() ? step.program->graph.nodes() : last_reader(step, found->second.name);
  };
  std::stable_sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) { return reader(a) > reader(b); });
  for (const std::string& name : names) {
    const auto found = parameters.find(name);
    CheckDifference where{"norm of the gradient of " + name, -1, "", "", 0};
    if (found != parameters.end()) where.operation = reader_of({step.program, 0, step.program->graph.nodes()}, found->second.name);
    const at::Tensor ours = found == parameters.end() ? number(0) : norm_of(found->second.tensor.grad());
    compared.add(where, ours, number(reference.gradient_norms.at(name)), least_scale);
  }
}

CheckPart about_reference(const profiler::ExportedReference& reference) {
  CheckPart about{.name = "reference",
                  .compared = "the program in one piece with PyTorch" + (reference.torch.empty() ? "" : " " + reference.torch) +
                              " at export: loss, norms of gradients and buffers",
                  .tolerance = kCheckTolerance,
                  .remedy = "export the model again with mptune_export.py, which finds what export loses"};
  if (!reference.torch.empty() && !reference.torch.starts_with(TORCH_VERSION))
    about.remedy += "; the file is of torch " + reference.torch + ", this is LibTorch " + TORCH_VERSION;
  return about;
}

}  // namespace

CheckPart check_reference(const std::string& path) {
  const profiler::ExportedArchive archive = profiler::read_exported_archive(path);
  CheckPart left_out{.name = "reference", .compared = "the program in one piece with PyTorch at export"};
  if (!archive.reference) left_out.left_out = "the file has no reference: export it with mptune_export.py";
  if (archive.reference && archive.sample_inputs.empty()) left_out.left_out = "the file has no sample inputs";
  if (archive.without_weights) left_out.left_out = "the file has no weights";
  if (!left_out.left_out.empty()) return left_out;

  const profiler::ExportedReference& reference = *archive.reference;
  if (reference.device != "cpu") {
    left_out.left_out = "the reference was taken on a device of kind " + reference.device + ", which draws and rounds otherwise";
    return left_out;
  }
  const ProgramStep step = step_of(archive, reference, path);
  CheckPart about = about_reference(reference);
  about.tolerance = std::max(kCheckTolerance, 8 * epsilon_of(step.program->program.graph));
  ComparedTensors compared(std::move(about));
  compared.add({"loss", -1, "", "", 0}, step.loss.detach().to(at::kDouble), number(reference.loss));
  add_gradient_norms(compared, archive, reference, step);
  // Non-persistent buffers are constants of the program. Each is compared on its own scale: masks and means have nothing in common.
  for (const NamedTensor& buffer : step.layer->buffers())
    if (const auto norm = reference.buffer_norms.find(buffer.name); norm != reference.buffer_norms.end())
      compared.add({"norm of buffer " + buffer.name, -1, "", "", 0}, norm_of(buffer.tensor), number(norm->second));
  return compared.part();
}

}  // namespace mptune::tuner
