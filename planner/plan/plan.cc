#include "planner/plan/plan.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "planner/plan/plan_error.h"
#include "planner/plan/threads.h"
#include "profiler/base/index.h"

namespace mptune {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& where, const std::string& remedy) {
  throw planner::PlanError(what, where, remedy);
}

std::string stage_name(const Plan& plan, std::size_t index) {
  const Stage& stage = plan.stages[index];
  return "stage " + std::to_string(index) + " (layers " + std::to_string(stage.first_layer) + " to " + std::to_string(stage.last_layer) +
         ")";
}

void validate_microbatches(const Plan& plan, const std::string& where) {
  if (plan.microbatch_sizes.empty()) refuse("the plan has no micro-batches", where, "give at least one");
  std::int64_t samples = 0;
  for (std::size_t i = 0; i < plan.microbatch_sizes.size(); ++i) {
    if (plan.microbatch_sizes[i] < 1)
      refuse("micro-batch " + std::to_string(i) + " has no samples", where, "give every micro-batch at least one sample");
    samples += plan.microbatch_sizes[i];
  }
  if (samples > (std::int64_t{1} << 30)) refuse("the global batch is larger than 2^30 samples", where, "check the micro-batch sizes");
}

void validate_devices(const Plan& plan, const std::string& where) {
  if (plan.devices.empty()) refuse("the plan has no devices", where, "name at least one");
  std::set<std::string> seen;
  for (const std::string& device : plan.devices) {
    if (device.empty()) refuse("a device of the plan has no name", where, "name every device, like cpu:0");
    if (!seen.insert(device).second) refuse("device " + device + " is listed twice", where, "list every device once");
  }
}

void validate_stage_devices(const Plan& plan, std::size_t index, const std::string& where) {
  const Stage& stage = plan.stages[index];
  if (stage.devices.empty()) refuse(stage_name(plan, index) + " has no device", where, "give every stage a device");
  std::set<int> seen;
  for (const int device : stage.devices) {
    if (device < 0 || device >= static_cast<int>(plan.devices.size()))
      refuse(stage_name(plan, index) + " names device " + std::to_string(device) + ", which the plan does not list", where,
             "use a device of the plan's list");
    if (!seen.insert(device).second)
      refuse(stage_name(plan, index) + " has " + plan.devices[as_index(device)] + " twice", where, "give replicas devices of their own");
  }
}

void validate_recompute(const Plan& plan, std::size_t index, const std::string& where) {
  const Stage& stage = plan.stages[index];
  const Recompute& recompute = stage.recompute;
  if (stage.offload && recompute.mode != Recompute::Mode::none)
    refuse("stage " + std::to_string(index) + " recomputes and offloads saved activations", where, "choose one of the two");
  if (recompute.mode != Recompute::Mode::some) {
    if (!recompute.layers.empty() || !recompute.microbatches.empty())
      refuse(stage_name(plan, index) + " lists parts to recompute beside the mode none or all", where, "use the mode for parts");
    return;
  }
  if (recompute.layers.empty()) refuse(stage_name(plan, index) + " recomputes no layer", where, "write recompute none");
  for (std::size_t i = 0; i < recompute.layers.size(); ++i) {
    const int layer = recompute.layers[i];
    if (layer < stage.first_layer || layer >= stage.last_layer)
      refuse(stage_name(plan, index) + " recomputes layer " + std::to_string(layer) + ", which it does not hold", where,
             "list layers of the stage");
    if (i > 0 && layer <= recompute.layers[i - 1])
      refuse(stage_name(plan, index) + " lists recomputed layers out of order", where, "list them ascending");
  }
  for (const int microbatch : recompute.microbatches) {
    if (microbatch < 0 || microbatch >= plan.num_microbatches())
      refuse(stage_name(plan, index) + " recomputes micro-batch " + std::to_string(microbatch) + ", which does not exist", where,
             "list micro-batches of the plan");
  }
}

void validate_ranges(const Plan& plan, int layers, const std::string& where) {
  if (plan.stages.empty()) refuse("the plan has no stages", where, "give at least one");
  int next = 0;
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const Stage& stage = plan.stages[i];
    if (stage.first_layer != next)
      refuse(stage_name(plan, i) + (stage.first_layer < next ? " overlaps the stage before" : " leaves layers out"), where,
             "start it at layer " + std::to_string(next));
    if (stage.last_layer <= stage.first_layer) refuse(stage_name(plan, i) + " is empty", where, "give every stage at least one layer");
    next = stage.last_layer;
  }
  if (layers >= 0 && next != layers)
    refuse("the stages cover " + std::to_string(next) + " layers, the model has " + std::to_string(layers), where,
           "use a plan made for this model");
}

}  // namespace

int Plan::global_batch_size() const {
  return std::accumulate(microbatch_sizes.begin(), microbatch_sizes.end(), 0);
}

bool is_exact(const Plan& plan) {
  return plan.options.memory_format == MemoryFormat::contiguous && !plan.options.replace_slow_kernels && !fuses_weights(plan) &&
         planner::has_default_threads(plan);
}

bool fuses_weights(const Plan& plan) {
  return std::ranges::any_of(plan.actions, [](const std::vector<Action>& row) {
    return std::ranges::any_of(row, [](const Action& action) { return action.further > 0; });
  });
}

int replica_of(const Stage& stage, int microbatch) {
  return microbatch % static_cast<int>(stage.devices.size());
}

bool has_replicas(const Plan& plan) {
  return std::ranges::any_of(plan.stages, [](const Stage& stage) { return stage.devices.size() > 1; });
}

int device_of(const Stage& stage, int microbatch) {
  return stage.devices[as_index(replica_of(stage, microbatch))];
}

bool recomputes(const Recompute& recompute, int microbatch) {
  switch (recompute.mode) {
    case Recompute::Mode::none:
      return false;
    case Recompute::Mode::all:
      return true;
    case Recompute::Mode::some:
      break;
  }
  const std::vector<int>& only = recompute.microbatches;
  return only.empty() || std::find(only.begin(), only.end(), microbatch) != only.end();
}

bool recomputes_layer(const Recompute& recompute, int layer) {
  return recompute.mode == Recompute::Mode::all || std::ranges::binary_search(recompute.layers, layer);
}

int first_recomputed_early(const Stage& stage) {
  int first = stage.last_layer;
  while (first > stage.first_layer && recomputes_layer(stage.recompute, first - 1)) --first;
  return first;
}

std::vector<int> split_evenly(int batch, int m) {
  std::vector<int> sizes(as_index(m), batch / m);
  for (int i = 0; i < batch % m; ++i) ++sizes[as_index(i)];
  return sizes;
}

std::pair<int, int> allowed_counts(const SampleRange& samples, int batch) {
  const int fewest = samples.most == 0 ? 1 : (batch - 1) / samples.most + 1;
  return {fewest, batch / std::max(1, samples.least)};
}

std::vector<int> split_by_size(int batch, int size) {
  std::vector<int> sizes(as_index(batch / size), size);
  if (batch % size != 0) sizes.push_back(batch % size);
  return sizes;
}

std::vector<int> equal_cuts(int layers, int stages) {
  std::vector<int> cuts;
  int first = 0;
  for (const int count : split_evenly(layers, stages)) {
    if (first > 0) cuts.push_back(first);
    first += count;
  }
  return cuts;
}

void validate(const Plan& plan, int layers, const std::string& where) {
  validate_devices(plan, where);
  planner::validate_threads(plan, where);
  validate_microbatches(plan, where);
  validate_ranges(plan, layers, where);
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    validate_stage_devices(plan, i, where);
    validate_recompute(plan, i, where);
  }
}

}  // namespace mptune
