#include "mptune/planner/search/partition_bound.h"

#include <algorithm>
#include <cmath>

namespace mptune {
namespace {

// The least of a price over devices.
template <typename Price>
double least_of(const std::vector<int>& devices, Price price) {
  double least = price(devices.front());
  for (const int device : devices) least = std::min(least, price(device));
  return least;
}

LayerTimes fastest(const CostModel& cost, const std::vector<int>& devices, int layer, int samples) {
  LayerTimes times;
  times.forward_s = least_of(devices, [&](int device) { return cost.layer(device, layer, samples).forward_s; });
  times.backward_s = least_of(devices, [&](int device) { return cost.layer(device, layer, samples).backward_s; });
  return times;
}

double fastest_copy(const CostModel& cost, const std::vector<int>& sources, const std::vector<int>& destinations, std::int64_t bytes) {
  return least_of(sources, [&](int from) { return least_of(destinations, [&](int to) { return cost.copy_seconds(from, to, bytes); }); });
}

}  // namespace

PartitionBound::PartitionBound(const CostModel& cost, std::vector<std::vector<int>> devices, const std::vector<int>& microbatch_sizes)
    : devices_(std::move(devices)), layers_(cost.layers()), microbatches_(static_cast<int>(microbatch_sizes.size())) {
  const auto [least, most] = std::minmax_element(microbatch_sizes.begin(), microbatch_sizes.end());
  const int count_most = static_cast<int>(std::count(microbatch_sizes.begin(), microbatch_sizes.end(), *most));
  for (int s = 0; s < stages(); ++s) {
    add_sums(cost, s, *least, *most, count_most, microbatches_);
    for (const int device : devices_[static_cast<std::size_t>(s)]) step_cost_ = std::max(step_cost_, cost.step_seconds(device) * 1e9);
  }
  add_rest();
}

void PartitionBound::add_sums(const CostModel& cost, int stage, int least, int most, int count_most, int count) {
  const std::vector<int>& devices = devices_[static_cast<std::size_t>(stage)];
  const int device = devices.front();
  const auto replicas = static_cast<double>(devices.size());
  Sums sums;
  sums.action = least_of(devices, [&](int d) { return cost.action_seconds(d); }) * 1e9;
  sums.forward_least = sums.backward_least = sums.forward_all = sums.backward_all = sums.end = {0.0};
  sums.kept = sums.owned = {0};
  const double other = count - count_most;
  for (int layer = 0; layer < layers_; ++layer) {
    const LayerTimes small = fastest(cost, devices, layer, least);
    const LayerTimes large = fastest(cost, devices, layer, most);
    const std::int64_t parameters = cost.parameters_bytes(layer, layer + 1);
    // The smaller micro-batch is not always the cheaper one.
    sums.forward_least.push_back(sums.forward_least.back() + std::min(small.forward_s, large.forward_s) * 1e9);
    sums.backward_least.push_back(sums.backward_least.back() + std::min(small.backward_s, large.backward_s) * 1e9);
    sums.forward_all.push_back(sums.forward_all.back() + (large.forward_s * count_most + small.forward_s * other) * 1e9);
    sums.backward_all.push_back(sums.backward_all.back() + (large.backward_s * count_most + small.backward_s * other) * 1e9);
    const double reduce_s = cost.reduce_seconds(device, parameters) * (replicas - 1) / replicas;
    sums.end.push_back(sums.end.back() + (reduce_s + cost.optimizer_seconds(device, parameters)) * 1e9);
    sums.kept.push_back(sums.kept.back() + cost.kept_bytes(device, layer, layer + 1, least));
    const auto state = static_cast<std::int64_t>(cost.profile().optimizer_state_factor * static_cast<double>(parameters));
    sums.owned.push_back(sums.owned.back() + 2 * parameters + state + cost.profile().layers[static_cast<std::size_t>(layer)].buffers_bytes);
  }
  sums.send_output.assign(static_cast<std::size_t>(layers_) + 1, 0);
  sums.send_gradient = sums.send_output;
  for (int cut = 1; cut < layers_ && stage + 1 < stages(); ++cut) {
    const std::vector<int>& next = devices_[static_cast<std::size_t>(stage) + 1];
    const auto at = static_cast<std::size_t>(cut);
    sums.send_output[at] = fastest_copy(cost, devices, next, cost.boundary_bytes(cut, least, false)) * 1e9;
    sums.send_gradient[at] = fastest_copy(cost, next, devices, cost.boundary_bytes(cut, least, true)) * 1e9;
  }
  sums_.push_back(std::move(sums));
}

PartitionBound::Part PartitionBound::work(int stage, int first, int last) const {
  const Sums& sums = sums_[static_cast<std::size_t>(stage)];
  const auto a = static_cast<std::size_t>(first);
  const auto b = static_cast<std::size_t>(last);
  return {sums.forward_least[b] - sums.forward_least[a],
          sums.backward_least[b] - sums.backward_least[a],
          sums.forward_all[b] - sums.forward_all[a],
          sums.backward_all[b] - sums.backward_all[a],
          sums.send_output[b],
          sums.send_gradient[b]};
}

PartitionBound::Part PartitionBound::part(int stage, int first, int last) const {
  const double action = sums_[static_cast<std::size_t>(stage)].action;
  const auto replicas = static_cast<double>(devices_[static_cast<std::size_t>(stage)].size());
  Part part = work(stage, first, last);
  part.forward_least += action;
  part.backward_least += action;
  // The mean over the replicas: whatever holds for each of them holds for it.
  part.forward_all = (part.forward_all + action * microbatches_) / replicas;
  part.backward_all = (part.backward_all + action * microbatches_) / replicas;
  return part;
}

void PartitionBound::add_rest() {
  const auto size = static_cast<std::size_t>(layers_) + 1;
  rest_.assign(devices_.size(), std::vector<Part>(size));
  largest_.assign(devices_.size(), std::vector<double>(size, 0));
  devices_from_.assign(devices_.size() + 1, 0);
  std::size_t most_replicas = 1;
  for (int s = stages(); s-- > 0;) {
    const std::size_t replicas = devices_[static_cast<std::size_t>(s)].size();
    most_replicas = std::max(most_replicas, replicas);
    devices_from_[static_cast<std::size_t>(s)] = devices_from_[static_cast<std::size_t>(s) + 1] + static_cast<int>(replicas);
    std::vector<Part>& rest = rest_[static_cast<std::size_t>(s)];
    std::vector<double>& largest = largest_[static_cast<std::size_t>(s)];
    for (int layer = layers_; layer-- > 0;) {
      Part least = work(s, layer, layer + 1);
      for (int other = s + 1; other < stages(); ++other) {
        const Part there = work(other, layer, layer + 1);
        least.forward_least = std::min(least.forward_least, there.forward_least);
        least.backward_least = std::min(least.backward_least, there.backward_least);
        least.forward_all = std::min(least.forward_all, there.forward_all);
        least.backward_all = std::min(least.backward_all, there.backward_all);
      }
      const auto at = static_cast<std::size_t>(layer);
      const Part& behind = rest[at + 1];
      rest[at] = {behind.forward_least + least.forward_least,
                  behind.backward_least + least.backward_least,
                  behind.forward_all + least.forward_all,
                  behind.backward_all + least.backward_all,
                  0,
                  0};
      largest[at] = std::max(largest[at + 1], (least.forward_all + least.backward_all) / static_cast<double>(most_replicas));
    }
  }
}

std::int64_t PartitionBound::step_ns(const std::vector<int>& cuts) const {
  std::vector<Part> parts;
  double end_phase = 0;
  int first = 0;
  for (int s = 0; s < stages() && s <= static_cast<int>(cuts.size()); ++s) {
    const bool last = s + 1 == stages();
    if (s == static_cast<int>(cuts.size()) && !last) break;
    const int next = last ? layers_ : cuts[static_cast<std::size_t>(s)];
    parts.push_back(part(s, first, next));
    const std::vector<double>& end = sums_[static_cast<std::size_t>(s)].end;
    end_phase = std::max(end_phase, end[static_cast<std::size_t>(next)] - end[static_cast<std::size_t>(first)]);
    first = next;
  }
  const int known = static_cast<int>(parts.size());
  Part open;
  double round = 0;  // from the end of the last known stage's forward to its gradient, copies of that cut not counted
  if (known < stages()) {
    open = rest_[static_cast<std::size_t>(known)][static_cast<std::size_t>(first)];
    round = open.forward_least + open.backward_least;
  }
  double before = 0;
  double after = 0;
  for (const Part& stage : parts) {
    before += stage.forward_least + stage.send_output;
    after += stage.backward_least + stage.send_gradient;
  }
  double bound = before + after + round;
  if (known < stages()) {
    const double share = (open.forward_all + open.backward_all) / devices_from_[static_cast<std::size_t>(known)];
    const double largest = largest_[static_cast<std::size_t>(known)][static_cast<std::size_t>(first)];
    bound = std::max(bound, before + std::max(share, largest) + after);
  }
  for (std::size_t s = parts.size(); s-- > 0;) {
    const Part& stage = parts[s];
    round += stage.send_output + stage.send_gradient;
    before -= stage.forward_least + stage.send_output;
    after -= stage.backward_least + stage.send_gradient;
    const double between = std::max({stage.forward_all + stage.backward_all, stage.forward_all + round + stage.backward_least,
                                     stage.forward_least + round + stage.backward_all});
    bound = std::max(bound, before + between + after);
    round += stage.forward_least + stage.backward_least;
  }
  // Every operation is rounded to the nanosecond.
  const double slack = 4.0 * microbatches_ + 4.0 * stages() + 2;
  return static_cast<std::int64_t>(std::floor(bound * (1 - 1e-12) + end_phase + step_cost_ - slack));
}

std::int64_t PartitionBound::bytes(int stage, int first, int last) const {
  const Sums& sums = sums_[static_cast<std::size_t>(stage)];
  const auto a = static_cast<std::size_t>(first);
  const auto b = static_cast<std::size_t>(last);
  return sums.owned[b] - sums.owned[a] + sums.kept[b] - sums.kept[a];
}

double PartitionBound::load_ns(int stage, int first, int last) const {
  const Part whole = part(stage, first, last);
  return whole.forward_all + whole.backward_all;
}

}  // namespace mptune
