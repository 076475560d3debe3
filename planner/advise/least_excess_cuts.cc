#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "planner/advise/fit_variants.h"
#include "planner/cost/stage_flows.h"
#include "planner/schedule/schedule.h"
#include "planner/schedule/schedule_info.h"
#include "profiler/base/index.h"
#include "profiler/trace/values/samples_taken.h"

namespace mptune::planner {
namespace {

/// Bytes over the cap, then seconds: those of a stage, or the largest of several stages.
using Load = std::pair<std::int64_t, double>;
constexpr int kFinestSplit = 256;                  // micro-batches
constexpr std::int64_t kMostLookedAt = 8'000'000;  // actions, over all numbers of stages: seconds
constexpr std::int64_t kMostCuts = 1'000'000;      // cuts of one plan, of which a question asks for many: some hundred milliseconds
constexpr Load kNoLoad{std::numeric_limits<std::int64_t>::max(), 0};

Load larger(const Load& a, const Load& b) {
  return {std::max(a.first, b.first), std::max(a.second, b.second)};
}

double stage_seconds(int device, int first, int last, int samples, const CostModel& cost) {
  double sum = 0;
  for (int layer = first; layer < last; ++layer) {
    const LayerTimes times = cost.layer(device, layer, samples);
    sum += times.forward_s + times.backward_s;
  }
  return sum;
}

/// Returns the load of stage `s` with the layers [first, last). With one stage per device, only its own range matters to its device, in a
/// chain.
Load load_of(Plan& plan, int s, int first, int last, std::int64_t cap, const CostModel& cost) {
  set_layers(plan, s, first, last);
  const int device = plan.stages[as_index(s)].devices.front();
  const std::int64_t over = cap > 0 ? std::max<std::int64_t>(0, cost.peak_bytes(plan, device) - cap) : 0;
  const int samples = *std::ranges::max_element(plan.microbatch_sizes);
  return {over, stage_seconds(cost.device_index(plan.devices[as_index(device)]), first, last, samples, cost)};
}

/// Returns a lower bound of a stage's bytes that only grows with its layers: parameters and optimizer state, with gradients or saved
/// activations.
std::int64_t least_bytes(const Plan& plan, int device, int first, int last, const CostModel& cost) {
  const std::int64_t parameters = cost.parameters_bytes(first, last);
  const bool again = plan.stages.front().recompute.mode != Recompute::Mode::none;
  const std::int64_t saved = again ? 0 : cost.memory().saved_activation_bytes(device, first, last, plan.microbatch_sizes.back());
  const auto state = static_cast<std::int64_t>(cost.profile().optimizer_state_factor * static_cast<double>(parameters));
  return parameters + state + std::max(parameters, saved);
}

/// Returns a pipeline of K equal devices; everything but its cuts is fixed.
Plan equal_pipeline(const Plan& like, const std::string& device, int stages) {
  Plan plan;
  plan.microbatch_sizes = like.microbatch_sizes;
  const bool again = std::ranges::any_of(like.stages, [](const Stage& s) { return s.recompute.mode != Recompute::Mode::none; });
  for (int s = 0; s < stages; ++s) {
    plan.devices.push_back(device);  // a device of the profile: its costs are what counts
    plan.stages.push_back({s, s + 1, {s}, {again ? Recompute::Mode::all : Recompute::Mode::none, {}, {}}});
  }
  make_schedule(plan, kDefaultSchedule);
  return plan;
}

/// Returns the fewest equal devices whose 1f1b pipeline fits. They are found from the pipeline's end, by the layers that the last j devices
/// can hold: the memory of a stage depends on how many stages come after it, not on how many come before.
int fewest_stages(const Plan& like, const std::string& device, std::int64_t cap, int most, const CostModel& cost) {
  const int layers = cost.layers();
  std::vector<bool> held(as_index(layers) + 1, false);  // layers [first, end) fit on the last j devices
  held.back() = true;
  std::int64_t worked = 0;
  const int index = cost.device_index(device);
  for (int j = 1; j <= std::min(most, layers) && worked < kMostLookedAt; ++j) {
    std::vector<bool> now(held.size(), false);
    Plan whole = equal_pipeline(like, device, j), behind = equal_pipeline(like, device, j + 1);
    for (int first = layers - j; first >= 0; --first) {
      if (!cost.may_cut(first)) continue;
      for (int last = first + 1; last <= layers && !now[as_index(first)]; ++last) {
        if (!held[as_index(last)]) continue;
        if (least_bytes(whole, index, first, last, cost) > cap) break;
        worked += std::int64_t{2} * like.num_microbatches();
        Plan& plan = first == 0 ? whole : behind;
        now[as_index(first)] = load_of(plan, first == 0 ? 0 : 1, first, last, cap, cost).first == 0;
      }
    }
    if (now.front()) return j;
    if (std::ranges::find(now, true) == now.end()) return 0;
    held = std::move(now);
  }
  return 0;
}

}  // namespace

std::vector<int> least_excess_cuts(const Plan& plan, const std::vector<std::int64_t>& caps, const CostModel& cost) {
  if (!cost.is_chain()) return least_excess_cuts(plan, caps, CostModel(as_chain(cost.profile())));
  const int layers = cost.layers();
  const int stages = plan.num_stages();
  if (std::int64_t{1} * stages * layers * layers * plan.num_microbatches() > kMostCuts) return {};
  Plan scratch = plan;
  const auto at = [&](int s, int end) { return as_index(s * (layers + 1) + end); };
  std::vector<Load> best(as_index(stages * (layers + 1)), kNoLoad);
  std::vector<int> begin(best.size(), 0);
  for (int s = 0; s < stages; ++s) {
    const std::int64_t cap = caps[as_index(plan.stages[as_index(s)].devices.front())];
    for (int end = s + 1; end <= layers - (stages - s - 1); ++end) {
      if (end < layers && !cost.may_cut(end)) continue;
      if (s + 1 == stages && end < layers) continue;
      for (int first = s; first < end; ++first) {
        if ((s == 0) != (first == 0) || (s > 0 && best[at(s - 1, first)] == kNoLoad)) continue;
        const Load own = load_of(scratch, s, first, end, cap, cost);
        const Load load = s == 0 ? own : larger(own, best[at(s - 1, first)]);
        if (load >= best[at(s, end)]) continue;
        best[at(s, end)] = load;
        begin[at(s, end)] = first;
      }
    }
  }
  if (best[at(stages - 1, layers)] == kNoLoad) return {};
  std::vector<int> cuts;
  for (int s = stages - 1, end = layers; s > 0; --s) cuts.insert(cuts.begin(), end = begin[at(s, end)]);
  return cuts;
}

DevicesNeeded devices_needed(const Plan& plan, const std::string& device, std::int64_t cap_bytes, int most, const CostModel& cost) {
  if (cap_bytes <= 0) return {};
  if (!cost.is_chain()) return devices_needed(plan, device, cap_bytes, most, CostModel(as_chain(cost.profile())));
  if (const int count = fewest_stages(plan, device, cap_bytes, most, cost); count > 0) return {count, {}};
  Plan least = plan;
  for (Stage& stage : least.stages) {
    stage.recompute = {Recompute::Mode::all, {}, {}};
    stage.offload = false;
  }
  const int finest_allowed = allowed_counts(profiler::samples_taken(cost.profile().layers), plan.global_batch_size()).second;
  const int finest = std::max(plan.num_microbatches(), std::min(finest_allowed, kFinestSplit));
  least.microbatch_sizes = split_evenly(plan.global_batch_size(), finest);
  if (const int count = fewest_stages(least, device, cap_bytes, most, cost); count > 0)
    return {count, {microbatches_value(finest), {Field::recompute, "all"}}};
  return {};
}

}  // namespace mptune::planner
