#include "planner/search/baselines.h"

#include <algorithm>

#include "planner/search/make_plan.h"

namespace mptune::planner {
namespace {

bool allows_channels_last(const SearchSpace& space) {
  const auto is = [](const ExecutionVariant& options) { return options.memory_format == MemoryFormat::channels_last; };
  return !space.exact && std::ranges::any_of(space.variants, is);
}

/// Runs the whole batch at once where the model takes it, else in as few micro-batches as it takes.
PlanOptions one_stage(PlanOptions options, int fewest) {
  options.schedule = fewest > 1 ? kDefaultSchedule : "naive";
  options.stages = 1;
  options.microbatches = fewest;
  return options;
}

PlanOptions options_of(const SearchSpace& space, int layers, Precision precision) {
  PlanOptions options;
  options.devices = space.devices;
  options.batch = space.batch;
  options.layers = layers;
  options.precision = precision;
  return options;
}

}  // namespace

std::vector<NamedPlan> baseline_plans(const SearchSpace& space, int layers, Precision precision) {
  std::vector<NamedPlan> plans;
  const int devices = static_cast<int>(space.devices.size());
  const auto [fewest, most] = allowed_counts(space.samples, space.batch);
  PlanOptions one = one_stage(options_of(space, layers, precision), fewest);
  plans.push_back({kSingleDeviceBaseline, make_plan(one)});
  if (!space.whole_machine.empty()) {
    one.devices = {space.whole_machine.front()};
    plans.push_back({kAllCoresBaseline, make_plan(one)});
    if (allows_channels_last(space)) {
      plans.push_back({kAllCoresChannelsLastBaseline, plans.back().plan});
      plans.back().plan.options.memory_format = MemoryFormat::channels_last;
    }
  }
  if (devices < 2) return plans;
  if (devices <= layers) {
    PlanOptions pipeline = options_of(space, layers, precision);
    pipeline.schedule = "naive";
    if (fewest == 1) plans.push_back({kNaiveBaseline, make_plan(pipeline)});
    pipeline.schedule = kDefaultSchedule;
    pipeline.microbatches = std::clamp(std::min(4 * devices, space.batch), fewest, most);
    const bool several = !space.keep_numerics || space.microbatch_counts != std::vector{1};
    if (several) plans.push_back({kPipelineBaseline, make_plan(pipeline)});
  }
  const int shared = (fewest + devices - 1) / devices * devices;  // micro-batches that all devices share evenly
  if (shared <= most && !space.no_replicas) {
    PlanOptions parallel = options_of(space, layers, precision);
    parallel.replicas = {devices};
    parallel.microbatches = shared;
    plans.push_back({kDataParallelBaseline, make_plan(parallel)});
  }
  return plans;
}

}  // namespace mptune::planner
