#include "rank_training.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/optim/adam.h>

#include <algorithm>
#include <cmath>

#include "gpu_training.h"
#include "planner/schedule/schedule_info.h"
#include "planner/search/make_plan.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "reference.h"
#include "small_models.h"
#include "tests/support/cases.h"
#include "tuner/runtime/between/remote_device.h"

namespace mptune::testing {
namespace {

std::string text_of(const RankChoices& c) {
  std::string text = c.schedule + " stages=" + std::to_string(c.stages) + " m=" + std::to_string(c.microbatches);
  for (const int count : c.replicas) text += " x" + std::to_string(count);
  return text + (c.recompute ? " recompute" : "");
}

/// What a training of a few steps leaves.
struct Trained {
  std::vector<double> numbers;  ///< losses and norms
  std::map<std::string, at::Tensor> tensors;
  Tensors outputs;
  Tensors saved;
};

at::Tensor in_host_memory(const at::Tensor& tensor) {
  return tensor.to(tensor.options().device(at::kCPU), false, true);
}

/// Three steps of Adam with clipped gradients, the last of a smaller batch, and an evaluation.
Trained few_steps(Pipeline& pipeline, const Model& model, const Batch& batch) {
  Trained result;
  // Gradients that are rounding alone make no steps.
  const auto options = torch::optim::AdamOptions().eps(1e-3);
  std::vector<std::unique_ptr<torch::optim::Adam>> optimizers(pipeline.plan().stages.size());
  pipeline.on_stages(
      [&](int stage) { optimizers[as_index(stage)] = std::make_unique<torch::optim::Adam>(pipeline.parameters(stage), options); });
  for (const int samples : {kRankBatch, kRankBatch, kRankBatch / 2}) {
    const Batch part = samples_of(batch, 0, samples);
    result.numbers.push_back(pipeline.step(part.inputs, part.target).loss);
    result.numbers.push_back(pipeline.clip_gradients(0.5));
    for (const NamedTensor& named : pipeline.named_parameters())
      if (named.tensor.grad().defined())
        result.tensors["gradient " + std::to_string(result.numbers.size()) + named.name] = in_host_memory(named.tensor.grad());
    pipeline.update_with_next_step([&](int stage) { optimizers[as_index(stage)]->step(); });
  }
  result.outputs = pipeline.forward(batch.inputs);
  for (const NamedTensor& named : pipeline.named_parameters())
    result.tensors["parameter " + named.name] = in_host_memory(named.tensor.detach());
  for (const NamedTensor& named : pipeline.named_buffers()) result.tensors["buffer " + named.name] = in_host_memory(named.tensor);
  Model copy = copy_of(model);
  pipeline.copy_state_to(copy);
  for (const NamedTensor& named : copy.parameters()) result.saved.push_back(named.tensor.detach());
  for (const NamedTensor& named : copy.buffers()) result.saved.push_back(named.tensor);
  return result;
}

void expect_equal(const Tensors& a, const Tensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(at::equal(a[i], b[i])) << i;
}

/// Devices on ranks: each its own, all but the first together, in turn on two.
std::vector<std::vector<int>> divisions(int devices) {
  std::vector<int> own, first_apart, in_turn;
  for (int d = 0; d < devices; ++d) {
    own.push_back(d);
    first_apart.push_back(d == 0 ? 1 : 0);
    in_turn.push_back(d % 2);
  }
  return {own, first_apart, in_turn};
}

}  // namespace

std::optional<Plan> rank_plan(const RankChoices& c, int layers) {
  PlanOptions options;
  options.virtual_stages = planner::schedule_info(c.schedule).least_virtual_stages;
  options.stages = c.stages * options.virtual_stages;
  options.batch = kRankBatch;
  options.layers = layers;
  options.microbatches = c.microbatches;
  options.schedule = c.schedule;
  options.recompute = c.recompute ? "all" : "none";
  options.replicas = c.replicas;
  int devices = c.stages;
  if (!c.replicas.empty()) {
    devices = 0;
    for (const int count : c.replicas) devices += count;
  }
  options.devices = device_names(devices);
  try {
    return make_plan(options);
  } catch (const Error&) {
    return std::nullopt;
  }
}

Plan on_ranks(Plan plan, const std::vector<int>& rank_of) {
  for (std::size_t d = 0; d < plan.devices.size(); ++d) plan.devices[d] = std::to_string(rank_of[d]) + "@" + plan.devices[d];
  return plan;
}

std::vector<std::shared_ptr<Device>> devices_on(const Plan& plan, const RankGroup& group) {
  const std::vector<int> cores = available_cores();
  std::vector<std::shared_ptr<Device>> devices;
  for (const std::string& name : plan.devices) {
    DeviceSpec spec = parse_device(name);
    if (spec.kind == DeviceSpec::Kind::cpu) spec.cores = {cores[devices.size() % cores.size()]};
    devices.push_back(tuner::make_device_of(spec, &group));
  }
  return devices;
}

namespace {

Trained on_one_process(const Model& model, const Plan& plan, const Batch& batch) {
  Pipeline alone(copy_of(model), plan, {.seed = 5}, shared_core_devices(plan));
  return few_steps(alone, model, batch);
}

/// By rank of the plan's devices.
std::vector<Trained> over_ranks(const Model& model, const Plan& plan, const Batch& batch, Reduce reduce,
                                const profiler::GpuConnector* connector) {
  int ranks = 0;
  for (const std::string& name : plan.devices) ranks = std::max(ranks, parse_device(name).rank + 1);
  std::vector<Trained> of_rank(as_index(ranks));
  ThreadRanks(ranks).run([&](const std::shared_ptr<RankGroup>& group) {
    Pipeline pipeline(copy_of(model), plan, {.seed = 5, .ranks = group, .reduce = reduce, .connector = connector},
                      devices_on(plan, *group));
    of_rank[as_index(group->rank())] = few_steps(pipeline, model, batch);
  });
  return of_rank;
}

/// Every second device is a sleeping one, which computes like a CPU and has no cores of its own.
Plan with_sleeping_devices(Plan plan) {
  for (std::size_t d = 1; d < plan.devices.size(); d += 2)
    plan.devices[d] = std::to_string(parse_device(plan.devices[d]).rank) + "@sleep:" + std::to_string(d);
  return plan;
}

/// Up to `rounding` of the largest number in `a`; 0: bit for bit.
void expect_close(const at::Tensor& a, const at::Tensor& b, double rounding, const std::string& name) {
  if (a.numel() == 0) return;
  const at::Tensor far = (a - b).abs().to(at::kDouble), large = a.abs().to(at::kDouble);
  EXPECT_LE(far.max().item<double>(), rounding * (1 + large.max().item<double>())) << name;
}

void expect_same_on_all(const std::vector<Trained>& of_rank) {
  for (const Trained& own : of_rank) {
    EXPECT_EQ(own.numbers, of_rank[0].numbers);
    expect_equal(own.outputs, of_rank[0].outputs);
    expect_equal(own.saved, of_rank[0].saved);
  }
}

/// Also that ranks have the same bits of what several have.
void expect_close(const Trained& expected, const std::vector<Trained>& of_rank, double rounding) {
  expect_same_on_all(of_rank);
  std::map<std::string, at::Tensor> all;
  for (const Trained& own : of_rank)
    for (const auto& [name, tensor] : own.tensors) EXPECT_TRUE(at::equal(all.emplace(name, tensor).first->second, tensor)) << name;
  for (std::size_t i = 0; i < expected.numbers.size(); ++i)
    EXPECT_NEAR(of_rank[0].numbers[i], expected.numbers[i], rounding * std::abs(expected.numbers[i])) << i;
  for (std::size_t i = 0; i < expected.outputs.size(); ++i) expect_close(expected.outputs[i], of_rank[0].outputs.at(i), rounding, "output");
  for (std::size_t i = 0; i < expected.saved.size(); ++i) expect_close(expected.saved[i], of_rank[0].saved.at(i), rounding, "saved");
  EXPECT_EQ(all.size(), expected.tensors.size());
  for (const auto& [name, tensor] : expected.tensors) {
    ASSERT_TRUE(all.contains(name)) << name;
    expect_close(tensor, all.at(name), rounding, name);
  }
}

enum class Trains { every_rank, first_rank };

void expect_equal_to_one_process(const Model& model, const Plan& plan, const std::vector<int>& rank_of,
                                 const profiler::GpuConnector* connector, Trains trains) {
  const Batch batch = synthetic_batch(model.sample(), kRankBatch, 3);
  const Trained expected = on_one_process(model, plan, batch);
  const Plan over = trains == Trains::first_rank ? with_sleeping_devices(on_ranks(plan, rank_of)) : on_ranks(plan, rank_of);
  const std::vector<Trained> of_rank = over_ranks(model, over, batch, Reduce::ordered, connector);
  std::map<std::string, at::Tensor> all;
  for (const Trained& own : of_rank) {
    EXPECT_EQ(own.numbers, expected.numbers);
    expect_equal(own.outputs, expected.outputs);
    expect_equal(own.saved, expected.saved);
    for (const auto& [name, tensor] : own.tensors)
      if (const auto [known, first] = all.emplace(name, tensor); !first) {
        EXPECT_TRUE(at::equal(known->second, tensor)) << name;
        EXPECT_NE(trains, Trains::first_rank) << name << " is trained on two ranks";
      }
  }
  EXPECT_EQ(all.size(), expected.tensors.size());
  for (const auto& [name, tensor] : expected.tensors) {
    ASSERT_TRUE(all.contains(name)) << name;
    EXPECT_TRUE(at::equal(all.at(name), tensor)) << name;
  }
}

}  // namespace

void expect_equal_over_ranks(const Model& model, const Plan& plan, const std::vector<int>& rank_of,
                             const profiler::GpuConnector* connector) {
  expect_equal_to_one_process(model, plan, rank_of, connector, Trains::every_rank);
}

void expect_equal_with_unlike_devices(const Model& model, const Plan& plan, const std::vector<int>& rank_of,
                                      const profiler::GpuConnector* connector) {
  expect_equal_to_one_process(model, plan, rank_of, connector, Trains::first_rank);
}

void expect_close_over_ranks(const Model& model, const Plan& plan, const std::vector<int>& rank_of,
                             const profiler::GpuConnector* connector) {
  const Batch batch = synthetic_batch(model.sample(), kRankBatch, 3);
  const Trained expected = on_one_process(model, plan, batch);
  expect_close(expected, over_ranks(model, on_ranks(plan, rank_of), batch, Reduce::all_reduce, connector), kRounding);
}

void expect_gpus_over_ranks(const Model& model, const Plan& plan, const std::vector<int>& rank_of, Reduce reduce) {
  const Batch batch = synthetic_batch(model.sample(), kRankBatch, 3);
  Pipeline alone(copy_of(model), plan, {.seed = 5});
  const Trained expected = few_steps(alone, model, batch);
  const double rounding = gpus_round_as_one_thread() ? (reduce == Reduce::ordered ? 0 : kRounding) : kGpuTolerance;
  expect_close(expected, over_ranks(model, on_ranks(plan, rank_of), batch, reduce, nullptr), rounding);
}

std::vector<RankChoices> replicated_choices() {
  std::vector<RankChoices> all;
  for (const char* schedule : {"1f1b", "gpipe", "zb1p"})
    for (const int m : {2, 5})
      for (const std::vector<int>& replicas : {std::vector<int>{2}, {2, 1}, {1, 2}, {2, 2}, {3}, {1, 3}})
        all.push_back({schedule, static_cast<int>(replicas.size()), m, replicas, false});
  return all;
}

std::vector<RankChoices> rank_choices() {
  std::vector<RankChoices> all;
  for (const planner::ScheduleInfo& schedule : planner::schedules())
    for (const int stages : {2, 3})
      for (const int m : {1, 4})
        for (const bool recompute : {false, true}) all.push_back({schedule.name, stages, m, {}, recompute});
  for (const char* schedule : {"1f1b", "gpipe", "zb1p"})
    for (const int m : {1, 2, 5})
      for (const std::vector<int>& replicas : {std::vector<int>{2, 1}, {1, 2}, {2, 2}, {3}, {1, 3}})
        all.push_back({schedule, static_cast<int>(replicas.size()), m, replicas, false});
  return all;
}

void check_ranks(const Model& model, int stride, int first, const std::vector<RankChoices>& all, RankCheck check,
                 const profiler::GpuConnector* connector) {
  int possible = 0;
  for (const RankChoices& choices : all) {
    const auto plan = rank_plan(choices, model.size());
    if (!plan) continue;
    const auto divided = divisions(static_cast<int>(plan->devices.size()));
    for (std::size_t i = 0; i < divided.size(); ++i)
      if (divided[i].size() > 1 && possible++ % thinned(stride) == first) {
        SCOPED_TRACE(text_of(choices) + " division " + std::to_string(i));
        check(model, *plan, divided[i], connector);
        if (::testing::Test::HasFailure()) return;
      }
  }
  EXPECT_GT(possible, 50);
}

Model with_mean_square(const Model& model) {
  return copy_of(model, Loss::mean_square());
}

}  // namespace mptune::testing
