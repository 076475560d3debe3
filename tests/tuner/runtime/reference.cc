#include "reference.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>

#include <algorithm>

#include "planner/schedule/schedule_info.h"
#include "planner/search/make_plan.h"
#include "profiler/base/device_spec.h"
#include "profiler/base/index.h"
#include "profiler/device/list/device_list.h"
#include "profiler/model/loading/load_model.h"

namespace mptune::testing {

ReferenceStep run_reference(const std::string& model_text, const std::string& input, const Batch& batch, const std::vector<int>& sizes) {
  return run_reference(load_model(model_text, input, 0).model, batch, sizes);
}

ReferenceStep run_reference(Model model, const Batch& batch, const std::vector<int>& sizes, const RunForward& run, double scale) {
  at::set_num_threads(1);
  const auto parameters = model.parameters();
  const auto total = static_cast<double>(batch.inputs[0].size(0));
  std::vector<std::vector<std::vector<BatchStatistics>>> statistics(model.layers().size());  // [layer][norm][micro-batch]
  ReferenceStep step;
  std::int64_t first = 0;
  for (std::size_t m = 0; m < sizes.size(); ++m) {
    RunContext context;
    context.microbatch = static_cast<int>(m);
    context.first_sample = first;
    context.samples = sizes[m];
    const Batch part = samples_of(batch, first, sizes[m]);
    const auto forward = [&] { return model.loss()(forward_all(model, part.inputs, context), part.target); };
    const at::Tensor loss = run ? run(forward) : forward();
    const double weight = sizes[m] / total;
    loss.backward(at::full_like(loss, weight * scale));
    step.loss += loss.item<double>() * weight;
    auto& gradients = step.gradients.emplace_back();
    for (const NamedTensor& parameter : parameters) gradients.push_back(std::exchange(at::Tensor(parameter.tensor).mutable_grad(), {}));
    for (std::size_t layer = 0; layer < model.layers().size(); ++layer) {
      auto norms = model.layers()[layer].layer->take_statistics();
      statistics[layer].resize(norms.size());
      for (std::size_t norm = 0; norm < norms.size(); ++norm) statistics[layer][norm].push_back(std::move(norms[norm]));
    }
    first += sizes[m];
  }
  for (std::size_t layer = 0; layer < model.layers().size(); ++layer)
    if (model.layers()[layer].layer->has_batch_statistics()) model.layers()[layer].layer->commit_statistics(statistics[layer]);
  for (const NamedTensor& buffer : model.buffers()) step.buffers.push_back(buffer.tensor.clone());
  return step;
}

AutocastByHand::AutocastByHand(at::DeviceType device, at::ScalarType type)
    : device_(device), before_(at::autocast::get_autocast_dtype(device)) {
  at::autocast::set_autocast_dtype(device_, type);
  at::autocast::set_autocast_enabled(device_, true);
  at::autocast::set_autocast_cache_enabled(false);
}

AutocastByHand::~AutocastByHand() {
  at::autocast::set_autocast_enabled(device_, false);
  at::autocast::set_autocast_dtype(device_, before_);
  at::autocast::set_autocast_cache_enabled(true);
}

std::vector<at::Tensor> sum_in_plan_order(const ReferenceStep& reference, const Plan& plan, const Model& model) {
  std::vector<at::Tensor> sums;
  std::size_t parameter = 0;
  for (const Stage& stage : plan.stages) {
    std::size_t count = 0;
    for (int layer = stage.first_layer; layer < stage.last_layer; ++layer)
      count += model.layers()[as_index(layer)].layer->parameters().size();
    const int index = static_cast<int>(&stage - plan.stages.data());
    for (std::size_t p = parameter; p < parameter + count; ++p) {
      at::Tensor sum;
      for (int device : stage.devices) {
        at::Tensor replica;
        for (const Action& action : plan.actions[as_index(device)]) {
          for (int i = action.microbatch; i <= action.last_microbatch(); ++i) {
            const at::Tensor& gradient = reference.gradients[as_index(i)][p];
            if (!gradient.defined()) continue;
            // Vectors belong to no product, so the input gradients add theirs.
            const ActionKind adds = gradient.dim() > 1 ? ActionKind::backward_weight : ActionKind::backward_input;
            if (action.stage != index || (action.kind != ActionKind::backward && action.kind != adds)) continue;
            replica = replica.defined() ? replica.add(gradient) : gradient.clone();
          }
        }
        if (replica.defined()) sum = sum.defined() ? sum.add(replica) : replica;
      }
      sums.push_back(sum);
    }
    parameter += count;
  }
  return sums;
}

std::vector<std::string> device_names(int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back("cpu:" + std::to_string(i));
  return names;
}

std::vector<Plan> two_device_plans(int layers, int batch, int microbatches, bool recompute) {
  std::vector<Plan> plans;
  for (const planner::ScheduleInfo& schedule : planner::schedules()) {
    if (schedule.one_microbatch || 2 * schedule.least_virtual_stages > layers) continue;
    PlanOptions options;
    options.devices = device_names(2);
    options.batch = batch;
    options.layers = layers;
    options.stages = 2 * schedule.least_virtual_stages;
    options.virtual_stages = schedule.least_virtual_stages;
    options.microbatches = microbatches;
    options.schedule = schedule.name;
    options.recompute = recompute ? "all" : "none";
    plans.push_back(make_plan(options));
    plans.back().options.idle_devices_help = plans.size() % 2 == 0;
  }
  return plans;
}

std::vector<at::Tensor> gradients_of(const Pipeline& pipeline) {
  std::vector<at::Tensor> gradients;
  for (const NamedTensor& parameter : pipeline.named_parameters()) gradients.push_back(parameter.tensor.grad());
  return gradients;
}

std::vector<std::shared_ptr<Device>> shared_core_devices(const Plan& plan) {
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

double relative_difference(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double scale = std::max(b[i].abs().max().item<double>(), 1e-6);
    worst = std::max(worst, (a[i] - b[i]).abs().max().item<double>() / scale);
  }
  return worst;
}

}  // namespace mptune::testing
