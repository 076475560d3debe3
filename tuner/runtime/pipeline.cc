#include "tuner/runtime/pipeline.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <numeric>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/printable.h"
#include "profiler/device/list/device_list.h"
#include "tuner/runtime/between/remote_device.h"
#include "tuner/runtime/graph/bound_graph.h"
#include "tuner/runtime/step/step_runner.h"

namespace mptune {

namespace {

std::vector<std::shared_ptr<Device>> devices_of(const Plan& plan, const RankGroup* ranks) {
  std::vector<std::shared_ptr<Device>> devices;
  for (const DeviceSpec& spec : parse_device_names(plan.devices)) devices.push_back(tuner::make_device_of(spec, ranks));
  return devices;
}

void check_modules_of(const Model& model, const PlanFile& file) {
  std::vector<ProfileLayer> layers;
  for (const ModelLayer& layer : model.layers()) layers.emplace_back().modules = layer.modules;
  // A plan that names a module which no layer has belongs to another form of the model.
  (void)check_modules(file, layers, "plan for " + model.name());
}

const Plan& checked(const Model& model, const PlanFile& file, bool strict) {
  if (file.fingerprint.model == model.fingerprint()) check_modules_of(model, file);
  if (file.fingerprint.model.empty() || file.fingerprint.model == model.fingerprint()) return file.plan;
  if (strict) throw Error("the plan was made for another model", model.name(), "tune this model, or leave out strict");
  std::fprintf(stderr, "mptune: warning: the plan was made for another model than %s; tune it again\n", printable(model.name()).c_str());
  return file.plan;
}

std::int64_t samples_in(const at::Tensor& tensor) {
  return tensor.dim() == 0 ? 0 : tensor.size(0);
}

/// Returns the number of samples. `most`: 0 for any number.
std::int64_t checked_samples(const Tensors& inputs, const at::Tensor& target, std::int64_t most) {
  const std::string where = most > 0 ? "plan for " + std::to_string(most) : "evaluation";
  if (inputs.empty()) throw Error("the batch has no inputs", where, "pass what the first layer takes");
  const std::int64_t samples = samples_in(inputs.front());
  if (samples < 1 || (most > 0 && samples > most))
    throw Error("the batch has " + std::to_string(samples) + " samples", where,
                samples < 1 ? "pass at least one"
                            : "pass at most " + std::to_string(most) + ", or make a plan with --batch " + std::to_string(samples));
  for (const at::Tensor& tensor : inputs)
    if (samples_in(tensor) != samples)
      throw Error("one input has " + std::to_string(samples) + " samples, another " + std::to_string(samples_in(tensor)), where,
                  "pass as many samples of each");
  if (target.defined() && samples_in(target) != samples)
    throw Error("the batch has " + std::to_string(samples) + " samples, the target " + std::to_string(samples_in(target)), where,
                "pass as many samples of each");
  return samples;
}

/// Concatenates the outputs of micro-batches.
Tensors joined(const std::vector<Tensors>& parts) {
  Tensors whole;
  for (std::size_t i = 0; i < parts.front().size(); ++i) {
    Tensors pieces;
    for (const Tensors& part : parts) pieces.push_back((part.at(i).dim() == 0 ? part[i].unsqueeze(0) : part[i]).detach());
    whole.push_back(at::cat(pieces));
  }
  return whole;
}

}  // namespace

struct Pipeline::Impl {
  tuner::BoundGraph graph;
  tuner::StepRunner runner;
  PipelineOptions options;
  // What the model has besides its layers, which are in the graph.
  std::string name;
  SampleDescription sample;
  int default_batch;
  double loss_scale = 1;

  Impl(const Model& model, const Plan& plan, const PipelineOptions& the_options, std::vector<std::shared_ptr<Device>> devices)
      : graph(model, plan, the_options, std::move(devices)),
        runner(graph, the_options.seed),
        options(the_options),
        name(model.name()),
        sample(model.sample()),
        default_batch(model.default_batch()) {}

  /// Returns the outputs by micro-batch of evaluated_sizes().
  [[nodiscard]] std::vector<Tensors> evaluated(const Tensors& inputs, std::int64_t samples) {
    std::vector<Tensors> parts;
    const std::int64_t batch = graph.plan().global_batch_size();
    for (std::int64_t first = 0; first < samples; first += batch)
      std::ranges::move(runner.evaluate(samples_of(inputs, first, std::min(batch, samples - first))), std::back_inserter(parts));
    return parts;
  }
  [[nodiscard]] std::vector<int> evaluated_sizes(std::int64_t samples) const {
    std::vector<int> sizes;
    const int batch = graph.plan().global_batch_size();
    for (std::int64_t left = samples; left > 0; left -= batch) {
      const tuner::BatchParts parts(graph.plan(), static_cast<int>(std::min<std::int64_t>(batch, left)));
      std::ranges::copy_if(parts.sizes(), std::back_inserter(sizes), [](int size) { return size > 0; });
    }
    return sizes;
  }
  void set_loss_scale(double scale) {
    loss_scale = scale;
    for (const auto& last : graph.stages().back())
      if (last) last->set_loss_scale(scale);
  }
  /// Returns a copy of the model as it is trained so far, on the host.
  [[nodiscard]] Model model() const {
    std::vector<ModelLayer> layers;
    for (const auto& replicas : graph.stages())
      for (ModelLayer& layer : replicas[0]->copied_layers()) layers.push_back(std::move(layer));
    return {name, std::move(layers), graph.loss(), sample, default_batch};
  }
};

Pipeline::Pipeline(Model model, const Plan& plan, const PipelineOptions& options)
    : Pipeline(std::move(model), plan, options, devices_of(plan, options.ranks.get())) {}

Pipeline::Pipeline(Model model, const PlanFile& file, const PipelineOptions& options)
    : Pipeline([&]() -> Model&& { return (void)checked(model, file, options.strict), std::move(model); }(), file.plan, options) {}

Pipeline::Pipeline(Model model, const Plan& plan, const PipelineOptions& options, std::vector<std::shared_ptr<Device>> devices)
    : impl_(std::make_unique<Impl>(model, plan, options, std::move(devices))) {}

Pipeline::~Pipeline() = default;
Pipeline::Pipeline(Pipeline&&) noexcept = default;
Pipeline& Pipeline::operator=(Pipeline&&) noexcept = default;

StepResult Pipeline::step(const at::Tensor& data, const at::Tensor& target, Accumulate accumulate) {
  return step(Tensors{data}, target, accumulate);
}

StepResult Pipeline::step(const Tensors& inputs, const at::Tensor& target, Accumulate accumulate) {
  (void)checked_samples(inputs, target, plan().global_batch_size());
  return impl_->runner.run(inputs, target, accumulate);
}

Tensors Pipeline::forward(const Tensors& inputs) {
  return joined(impl_->evaluated(inputs, checked_samples(inputs, {}, 0)));
}

at::Tensor Pipeline::forward(const at::Tensor& data) {
  return forward(Tensors{data}).at(0);
}

Evaluation Pipeline::evaluate(const Tensors& inputs, const at::Tensor& target) {
  const std::int64_t samples = checked_samples(inputs, target, 0);
  const std::vector<Tensors> parts = impl_->evaluated(inputs, samples);
  const at::NoGradGuard no_gradients;
  const Loss& loss = impl_->graph.loss();
  const at::Tensor own_target = target.defined() ? target.cpu() : target;
  const std::vector<int> sizes = impl_->evaluated_sizes(samples);
  const std::vector<double> weights = loss.weights_of_parts(own_target, sizes);
  Evaluation result{0, joined(parts)};
  std::int64_t first = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const at::Tensor part = own_target.defined() ? own_target.narrow(0, first, sizes[i]) : own_target;
    if (weights[i] > 0) result.loss += weights[i] * loss(parts[i], part).item<double>();
    first += sizes[i];
  }
  return result;
}

std::vector<at::Tensor> Pipeline::parameters(int stage) const {
  finish_update();
  std::vector<at::Tensor> tensors;
  for (const NamedTensor& parameter : named_parameters(stage)) tensors.push_back(parameter.tensor);
  return tensors;
}

std::vector<NamedTensor> Pipeline::named_parameters() const {
  finish_update();
  std::vector<NamedTensor> all;
  for (int stage = 0; stage < plan().num_stages(); ++stage)
    for (const NamedTensor& parameter : named_parameters(stage)) all.push_back(parameter);
  return all;
}

std::vector<NamedTensor> Pipeline::named_buffers() const {
  std::vector<NamedTensor> all;
  for (int stage = 0; stage < plan().num_stages(); ++stage)
    for (const NamedTensor& buffer : named_buffers(stage)) all.push_back(buffer);
  return all;
}

std::vector<NamedTensor> Pipeline::named_buffers(int stage) const {
  const tuner::StageReplica* trained = impl_->graph.trained(stage);
  return trained != nullptr ? trained->named_buffers() : std::vector<NamedTensor>();
}

bool Pipeline::leads(int stage) const {
  return impl_->graph.has_first(stage);
}

std::vector<NamedTensor> Pipeline::named_parameters(int stage) const {
  finish_update();
  const tuner::StageReplica* trained = impl_->graph.trained(stage);
  return trained != nullptr ? trained->named_parameters() : std::vector<NamedTensor>();
}

void Pipeline::set_steps(std::int64_t steps) {
  impl_->runner.set_steps(steps);
}

double Pipeline::gradient_norm() {
  std::vector<double> squares(plan().stages.size());
  on_stages([&](int stage) {
    if (!leads(stage)) return;
    const at::NoGradGuard no_gradients;
    for (const at::Tensor& parameter : parameters(stage)) {
      if (!parameter.grad().defined()) continue;
      const at::Tensor numbers = parameter.is_complex() ? at::view_as_real(parameter.grad()) : parameter.grad();
      squares[as_index(stage)] += at::norm(numbers, 2, at::kDouble).square().item<double>();
    }
  });
  squares = impl_->runner.sum_over_ranks(squares);
  return std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
}

double Pipeline::clip_gradients(double most) {
  constexpr double kAgainstZero = 1e-6;  // as in PyTorch
  const double norm = gradient_norm();
  const double factor = most / (norm + kAgainstZero);
  if (!std::isfinite(norm) || factor >= 1) return norm;
  on_stages([&](int stage) {
    const at::NoGradGuard no_gradients;
    for (const at::Tensor& parameter : parameters(stage))
      if (parameter.grad().defined()) at::Tensor(parameter.grad()).mul_(factor);
  });
  return norm;
}

void Pipeline::set_loss_scale(double scale) {
  impl_->set_loss_scale(scale);
}

double Pipeline::loss_scale() const {
  return impl_->loss_scale;
}

bool Pipeline::unscale_gradients() {
  std::vector<double> infinite(plan().stages.size());
  on_stages([&](int stage) {
    const at::NoGradGuard no_gradients;
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : parameters(stage)) {
      const at::Tensor& gradient = parameter.grad();
      if (gradient.defined()) gradients.push_back(gradient.is_complex() ? at::view_as_real(gradient) : gradient);
    }
    if (gradients.empty()) return;
    const auto on_device = gradients.front().options().dtype(at::kFloat);
    at::Tensor found = at::zeros({1}, on_device);
    at::_amp_foreach_non_finite_check_and_unscale_(gradients, found, at::full({1}, 1 / loss_scale(), on_device));
    infinite[as_index(stage)] = found.item<float>();
  });
  return std::ranges::all_of(impl_->runner.sum_over_ranks(infinite), [](double of_stage) { return of_stage == 0; });
}

void Pipeline::replan(const Plan& plan) {
  if (impl_->options.ranks)
    throw Error("the plan of several ranks can't be changed while they run", "Pipeline::replan",
                "save a checkpoint, and go on from it with the other plan");
  finish_update();
  const Model model = impl_->model();
  const PipelineOptions options = impl_->options;
  const Plan before = impl_->graph.plan(), after = plan;  // `plan` may be this pipeline's own
  const std::int64_t steps = impl_->runner.steps();
  const double scale = impl_->loss_scale;
  const std::vector<std::shared_ptr<Device>> own = impl_->graph.devices();
  const auto bind = [&](const Plan& to) {
    std::vector<std::shared_ptr<Device>> devices;
    for (std::size_t d = 0; d < to.devices.size(); ++d) {
      const auto same = std::ranges::find_if(own, [&](const auto& device) { return device->name() == to.devices[d]; });
      devices.push_back(same != own.end() ? *same : make_device(parse_device(to.devices[d])));
    }
    impl_ = std::make_unique<Impl>(model, to, options, std::move(devices));
    impl_->runner.set_steps(steps);
    impl_->set_loss_scale(scale);
  };
  impl_.reset();  // the devices may have no memory for two copies
  try {
    bind(after);
  } catch (...) {
    bind(before);
    throw;
  }
}

void Pipeline::copy_state_to(Model& model) const {
  const at::NoGradGuard no_grad;
  finish_update();
  const auto copy = [&](std::vector<NamedTensor> to, const std::vector<NamedTensor>& (tuner::StageReplica::*named)() const) {
    std::size_t at = 0;
    for (int stage = 0; stage < plan().num_stages(); ++stage) {
      Tensors own;
      if (impl_->graph.has_first(stage))
        for (const NamedTensor& each : (impl_->graph.first(stage).*named)()) own.push_back(each.tensor);
      for (const at::Tensor& from : impl_->runner.of_stage_everywhere(stage, own)) to.at(at++).tensor.copy_(from);
    }
  };
  copy(model.parameters(), &tuner::StageReplica::named_parameters);
  copy(model.buffers(), &tuner::StageReplica::named_buffers);
}

void Pipeline::on_stages(const std::function<void(int stage)>& work) {
  impl_->runner.on_stages(work);
}

void Pipeline::update_with_next_step(std::function<void(int stage)> work) {
  impl_->runner.update_with_next_step(std::move(work));
}

void Pipeline::finish_update() const {
  impl_->runner.finish_update();
}

void Pipeline::record(HostCollector* collector, TagSink* gpus) {
  impl_->runner.record(collector, gpus);
}

std::vector<Tensors> Pipeline::on_first_rank(const Tensors& own) const {
  return impl_->runner.on_first_rank(own);
}

Tensors Pipeline::from_first_rank(const Tensors& own) const {
  return impl_->runner.from_first_rank(own);
}

std::vector<double> Pipeline::sum_over_ranks(const std::vector<double>& own) const {
  return impl_->runner.sum_over_ranks(own);
}

bool Pipeline::has_all_stages() const {
  return impl_->options.ranks == nullptr;
}

const Plan& Pipeline::plan() const {
  return impl_->graph.plan();
}
std::int64_t Pipeline::steps() const {
  return impl_->runner.steps();
}

std::string Pipeline::failed_at() const {
  return impl_->runner.failed_at();
}

std::vector<std::int64_t> Pipeline::peak_bytes() const {
  std::vector<std::int64_t> peaks;
  for (const auto& device : impl_->graph.devices()) peaks.push_back(device->peak_bytes());
  return peaks;
}

void Pipeline::reset_peak_bytes() {
  for (const auto& device : impl_->graph.devices()) device->reset_peak();
}

std::string Pipeline::out_of_memory_device() const {
  for (const auto& device : impl_->graph.devices())
    if (device->refused_bytes() > 0) return device->name();
  return "";
}

std::int64_t Pipeline::refused_bytes() const {
  for (const auto& device : impl_->graph.devices())
    if (device->refused_bytes() > 0) return device->refused_bytes();
  return 0;
}

std::vector<TraceDevice> Pipeline::trace_devices() const {
  std::vector<TraceDevice> devices;
  for (const auto& device : impl_->graph.devices()) devices.push_back(device->description());
  return devices;
}

}  // namespace mptune
