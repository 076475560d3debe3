#include "planner/partition/stage_memory.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "planner/recompute/smallest_peak.h"
#include "planner/schedule/schedule.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

// Returns the most micro-batches in flight on the stage's first device after its first backward.
int most_in_flight_later(const Plan& plan, int stage) {
  int in_flight = 0;
  int most = 0;
  bool later = false;
  for (const Action& action : plan.actions[as_index(plan.stages[as_index(stage)].devices.front())]) {
    if (action.stage != stage) continue;
    if (action.kind == ActionKind::forward) ++in_flight;
    if (later) most = std::max(most, in_flight);
    if (action.kind != ActionKind::backward && action.kind != ActionKind::backward_weight) continue;
    --in_flight;
    later = true;
  }
  return most;
}

bool by_excess(const StageFit& a, const StageFit& b) {
  return a.excess_bytes < b.excess_bytes;
}

}  // namespace

StageMemory::StageMemory(const Family& family, const CostModel& cost) : family_(family), cost_(cost), plan_(family.any_plan()) {
  for (int s = 0; s < family.stages() && family.has_caps(); ++s) sums_.push_back(sums(s));
}

StageMemory::Sums StageMemory::sums(int stage) const {
  const Profile& profile = cost_.profile();
  const int device = cost_.device_index(plan_.devices[as_index(plan_.stages[as_index(stage)].devices.front())]);
  const int samples = *std::min_element(plan_.microbatch_sizes.begin(), plan_.microbatch_sizes.end());
  Sums sums{{0}, {0}, {0}, {}, most_in_flight(plan_, stage), most_in_flight_later(plan_, stage)};
  for (int layer = 0; layer < cost_.layers(); ++layer) {
    sums.buffers.push_back(sums.buffers.back() + profile.layers[as_index(layer)].buffers_bytes);
    sums.saved.push_back(sums.saved.back() + cost_.memory().saved_activation_bytes(device, layer, layer + 1, samples));
    const bool dropped = layer + 1 < cost_.layers() && !cost_.memory().keeps_output(device, layer);
    sums.dropped.push_back(dropped ? cost_.boundary_bytes(layer + 1, samples, false) : 0);
    sums.layer.push_back(std::max<std::int64_t>(0, sums.saved.back() - sums.saved[as_index(layer)] - sums.dropped.back()));
  }
  return sums;
}

std::int64_t StageMemory::least_bytes(int stage, int first, int last, bool recomputed) const {
  const Sums& sums = sums_[as_index(stage)];
  const auto a = as_index(first);
  const auto b = as_index(last);
  const auto flights = [&](std::int64_t most) { return recomputed ? std::min<std::int64_t>(1, most) : most; };
  // With pieces, one piece at least holds what the layer saves that saves most.
  const std::int64_t saved = recomputed && family_.pieces_may_fit()
                                 ? *std::max_element(sums.layer.begin() + first, sums.layer.begin() + last)
                                 : std::max<std::int64_t>(0, sums.saved[b] - sums.saved[a] - sums.dropped[b]);
  const std::int64_t parameters = cost_.parameters_bytes(first, last);
  const auto state = static_cast<std::int64_t>(cost_.profile().optimizer_state_factor * static_cast<double>(parameters));
  return parameters + state + sums.buffers[b] - sums.buffers[a] +
         std::max(flights(sums.in_flight) * saved, parameters + flights(sums.in_flight_later) * saved);
}

std::int64_t StageMemory::least_excess(int stage, int first, int last) const {
  const std::int64_t cap = family_.cap(plan_.stages[as_index(stage)].devices.front());
  if (cap <= 0) return std::numeric_limits<std::int64_t>::min() / 2;
  return least_bytes(stage, first, last, family_.recomputes_for_memory() || family_.always_recomputed(stage)) - cap;
}

std::vector<int> StageMemory::furthest(int stage) const {
  std::vector<int> furthest(as_index(cost_.layers()) + 1, cost_.layers());
  for (int first = 0, last = 0; first <= cost_.layers(); ++first) {
    last = std::max(first, last);
    while (last < cost_.layers() && least_excess(stage, first, last + 1) <= 0) ++last;
    furthest[as_index(first)] = last;
  }
  return furthest;
}

const StageFit& StageMemory::need(int stage, int first, int last) {
  const auto width = static_cast<std::uint64_t>(cost_.layers()) + 1;
  const std::uint64_t key =
      (static_cast<std::uint64_t>(stage) * width + static_cast<std::uint64_t>(first)) * width + static_cast<std::uint64_t>(last);
  const auto known = known_.find(key);
  if (known != known_.end()) return known->second;
  const bool always = family_.always_recomputed(stage);
  StageFit need = measure(stage, first, last, always ? Again::all : Again::nothing);
  if (need.excess_bytes > 0 && family_.recomputes_for_memory() && !always) need = measure(stage, first, last, Again::all);
  if (need.excess_bytes > 0 && family_.pieces_may_fit() && !always) {
    ran_out_ = ran_out_ || in_pieces_ == family_.most_in_pieces();
    if (!ran_out_) need = std::min(need, measure(stage, first, last, Again::pieces), by_excess);
  }
  return known_.emplace(key, need).first->second;
}

std::vector<std::int64_t> StageMemory::caps_of(const Stage& stage) const {
  std::vector<std::int64_t> caps(plan_.devices.size(), 0);
  for (const int device : stage.devices) caps[as_index(device)] = family_.cap(device);
  return caps;
}

StageFit StageMemory::measure(int stage, int first, int last, Again again) {
  set_layers(plan_, stage, first, last);
  plan_.stages[as_index(stage)].recompute = {again == Again::all ? Recompute::Mode::all : Recompute::Mode::none, {}, {}};
  in_pieces_ += again == Again::pieces ? 1 : 0;
  if (again == Again::pieces) plan_ = with_smallest_peaks(std::move(plan_), caps_of(plan_.stages[as_index(stage)]), cost_);
  StageFit need;
  need.recomputed = again != Again::nothing;
  need.excess_bytes = std::numeric_limits<std::int64_t>::min();
  for (const int device : plan_.stages[as_index(stage)].devices) {
    const std::int64_t peak = cost_.peak_bytes(plan_, device);
    need.peak_bytes = std::max(need.peak_bytes, peak);
    if (family_.cap(device) <= 0 || peak - family_.cap(device) <= need.excess_bytes) continue;
    need.excess_bytes = peak - family_.cap(device);
    need.excess_device = device;
  }
  return need;
}

}  // namespace mptune::planner
