#include "planner/search/graph/graph_bound.h"

#include <algorithm>
#include <limits>
#include <ranges>
#include <vector>

#include "planner/plan/helping.h"
#include "planner/plan/plan.h"
#include "planner/schedule/schedule_info.h"
#include "planner/search/make_plan.h"
#include "planner/search/space/choices.h"
#include "planner/simulate/operations.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

constexpr std::int64_t kInfinite = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kNone = -1;       // there is no such path
constexpr double kMostStageCases = 5e7;  // stages, with replicas, that are tried for one bound

// The least nanoseconds of a layer over the devices.
struct LeastTimes {
  std::int64_t forward = kInfinite;
  std::int64_t backward = kInfinite;  // the whole backward, or both parts
  std::int64_t input = kInfinite;     // the part that the layers before it wait for
};

std::vector<LeastTimes> least_times(const CostModel& cost, const std::vector<int>& devices, int samples, bool splits) {
  std::vector<LeastTimes> least(as_index(cost.layers()));
  for (int layer = 0; layer < cost.layers(); ++layer)
    for (const int device : devices) {
      const LayerTimes times = cost.layer(device, layer, samples);
      LeastTimes& of = least[as_index(layer)];
      const std::int64_t input = to_ns(times.backward_input_s), whole = to_ns(times.backward_s);
      of.forward = std::min(of.forward, to_ns(times.forward_s));
      of.backward = std::min({of.backward, whole, splits ? input + to_ns(times.backward_weight_s) : whole});
      of.input = std::min({of.input, splits ? input : whole, whole});
    }
  return least;
}

// Paths of one micro-batch, with a device for every layer.
struct Paths {
  std::vector<std::int64_t> made;  // end of a layer's forward
  std::vector<std::int64_t> loop;  // from the start of a layer's forward to the loss and to the end of its backward; kNone: none comes
  std::vector<std::int64_t> back;  // from the start of a layer's backward to the end of the last backward before it that waits for it

  Paths(const CostModel& cost, const std::vector<LeastTimes>& layers)
      : made(layers.size(), 0), loop(layers.size(), kNone), back(layers.size(), 0) {
    // Tensors are ordered by their makers.
    for (std::size_t layer = 0; layer < layers.size(); ++layer) made[layer] = layers[layer].forward, back[layer] = layers[layer].input;
    for (const ProfileTensor& tensor : cost.tensors().all()) {
      const auto maker = as_index(tensor.maker);
      for (const int reader : tensor.readers)
        made[as_index(reader)] = std::max(made[as_index(reader)], made[maker] + layers[as_index(reader)].forward);
      for (const int reader : tensor.gradient_readers)
        back[as_index(reader)] = std::max(back[as_index(reader)], back[maker] + layers[as_index(reader)].input);
    }
    loop.back() = layers.back().forward + layers.back().input;
    for (const ProfileTensor& tensor : cost.tensors().all() | std::views::reverse) {
      const LeastTimes& maker = layers[as_index(tensor.maker)];
      for (const int reader : tensor.gradient_readers)
        if (const std::int64_t behind = loop[as_index(reader)]; behind >= 0)
          loop[as_index(tensor.maker)] = std::max(loop[as_index(tensor.maker)], maker.forward + behind + maker.input);
    }
  }
};

// The micro-batches of one size.
struct SizeCosts {
  int count = 0;
  std::vector<LeastTimes> layers;
  Paths paths;
  SizeCosts(const CostModel& cost, const std::vector<int>& devices, int samples, int many, bool splits)
      : count(many), layers(least_times(cost, devices, samples, splits)), paths(cost, layers) {}
};

// Returns the least of each layer over the sizes.
std::vector<LeastTimes> least_of(const std::vector<SizeCosts>& sizes) {
  std::vector<LeastTimes> least = sizes.front().layers;
  for (std::size_t layer = 0; layer < least.size(); ++layer)
    for (const SizeCosts& size : sizes) {
      const LeastTimes& times = size.layers[layer];
      least[layer].forward = std::min(least[layer].forward, times.forward);
      least[layer].backward = std::min(least[layer].backward, times.backward);
      least[layer].input = std::min(least[layer].input, times.input);
    }
  return least;
}

// Returns the costs of at most two sizes.
std::vector<SizeCosts> costs_of(const CostModel& cost, const std::vector<int>& devices, const std::vector<int>& sizes, bool splits) {
  std::vector<SizeCosts> all;
  for (const int size : {sizes.front(), sizes.back()})
    if (all.empty() || sizes.front() != sizes.back())
      all.emplace_back(cost, devices, size, static_cast<int>(std::ranges::count(sizes, size)), splits);
  return all;
}

// Returns the sums over the layers before each layer.
template <class Value>
std::vector<std::int64_t> running_sums(int layers, const Value& value) {
  std::vector<std::int64_t> sums{0};
  for (int layer = 0; layer < layers; ++layer) sums.push_back(sums.back() + value(as_index(layer)));
  return sums;
}

// Returns the least time over the devices.
template <class Seconds>
std::int64_t least_ns(const std::vector<int>& devices, const Seconds& seconds) {
  std::int64_t least = kInfinite;
  for (const int device : devices) least = std::min(least, to_ns(seconds(device)));
  return least;
}

std::int64_t least_copy_ns(const CostModel& cost, const std::vector<int>& devices, std::int64_t bytes) {
  std::int64_t least = kInfinite;
  for (const int from : devices)
    for (const int to : devices)
      if (from != to) least = std::min(least, to_ns(cost.copy_seconds(from, to, bytes)));
  return least == kInfinite ? 0 : least;
}

class Bounds {
 public:
  /// `apart`: no two stages share a device.
  Bounds(const CostModel& cost, const std::vector<int>& devices, const std::vector<int>& sizes, bool splits, bool apart)
      : cost_(cost), costs_(costs_of(cost, devices, sizes, splits)), one_(least_of(costs_)), paths_(cost, one_) {
    const auto of_all = [&](std::int64_t LeastTimes::*time) {
      return running_sums(cost.layers(), [&](std::size_t layer) {
        std::int64_t all = 0;
        for (const SizeCosts& size : costs_) all += size.count * size.layers[layer].*time;
        return all;
      });
    };
    forward_ = of_all(&LeastTimes::forward);
    backward_ = of_all(&LeastTimes::backward);
    input_ = of_all(&LeastTimes::input);
    one_forward_ = running_sums(cost.layers(), [&](std::size_t layer) { return one_[layer].forward; });
    one_input_ = running_sums(cost.layers(), [&](std::size_t layer) { return one_[layer].input; });
    updates_ = running_sums(cost.layers(), [&](std::size_t layer) {
      return least_ns(devices, [&](int device) { return cost.optimizer_seconds(device, static_cast<int>(layer)); });
    });
    action_ns_ = least_ns(devices, [&](int device) { return cost.action_seconds(device); });
    step_ns_ = least_ns(devices, [&](int device) { return cost.step_seconds(device); });
    actions_ns_ = action_ns_ * static_cast<std::int64_t>(sizes.size());
    read_by_.resize(as_index(cost.layers()));
    for (const ProfileTensor& tensor : cost.tensors().all()) {
      const TensorSize size{tensor.bytes_per_sample, tensor.fixed_bytes};
      const std::int64_t copy_ns = apart ? least_copy_ns(cost, devices, size.bytes(std::ranges::min(sizes))) : 0;
      for (const int reader : tensor.readers)
        read_by_[as_index(reader)].push_back({tensor.maker, std::ranges::count(tensor.gradient_readers, reader) > 0, copy_ns});
    }
  }

  /// Returns a bound that holds for any stages.
  [[nodiscard]] std::int64_t of_any_stages(std::int64_t devices) const {
    const std::int64_t work = forward_.back() + backward_.back() + 2 * actions_ns_;
    std::int64_t path = 0;
    for (const SizeCosts& size : costs_) path = std::max(path, size.paths.made.back() + size.paths.back.back());
    return std::max((work + devices - 1) / devices, path + 2 * action_ns_) + (updates_.back() + devices - 1) / devices + step_ns_;
  }

  /// Returns a bound for at least `fewest` stages, and at most `most`, replicas counted.
  [[nodiscard]] std::int64_t of_stages(int fewest, int most) const {
    const int layers = cost_.layers();
    const ByStages behind = loops_behind_cuts(most);
    ByStages made(as_index(most) + 1, Row(as_index(layers) + 1, kInfinite)), back = made, least = made;
    for (int d = 0; d <= most; ++d) made[as_index(d)][0] = back[as_index(d)][0] = least[as_index(d)][0] = 0;
    for (int first = 0; first < layers; ++first)
      for_stages_from(first, [&](int last, const Ends& ends) {
        for (int d = 0; d < most; ++d) {
          if (made[as_index(d)][as_index(first)] == kInfinite) continue;  // that few stages do not reach this far
          const std::int64_t before = std::max(ends.made, ends.taken >= 0 ? ends.taken + made[as_index(d)][as_index(first)] : 0);
          const std::int64_t after = std::max(ends.back, ends.given >= 0 ? ends.given + back[as_index(d)][as_index(first)] : 0);
          lower(made[as_index(d) + 1][as_index(last)], before + action_ns_ + sum(one_forward_, first, last));
          lower(back[as_index(d) + 1][as_index(last)], after + action_ns_ + sum(one_input_, first, last));
          for (int replicas = 1; replicas <= std::min(most - d, most - fewest + 1); ++replicas) {
            const std::int64_t loop = behind[as_index(most - d - replicas)][as_index(last)];
            const std::int64_t stage = of_stage(first, last, replicas, before, after, loop);
            lower(least[as_index(d + replicas)][as_index(last)], std::max(least[as_index(d)][as_index(first)], stage));
          }
        }
      });
    std::int64_t all = kInfinite;
    for (const Row& row : least) all = std::min(all, row.back());
    return all + step_ns_;
  }

 private:
  struct Input {
    int maker = 0;
    bool gradient = false;
    std::int64_t copy_ns = 0;
  };
  using Row = std::vector<std::int64_t>;
  using ByStages = std::vector<Row>;  // by the number of stages, and by the layer after the cut: the least over all ways to cut

  // The times that a stage waits for.
  struct Ends {
    std::int64_t made = 0, back = 0;            // longest paths of layers to its forward, and from its backward
    std::int64_t taken = kNone, given = kNone;  // copies of what the layer before it computes, and of the gradient
  };

  static void lower(std::int64_t& least, std::int64_t value) { least = std::min(least, value); }
  [[nodiscard]] static std::int64_t sum(const Row& sums, int first, int last) { return sums[as_index(last)] - sums[as_index(first)]; }

  // Calls visit(last, ends) for the stages that begin at an allowed cut.
  template <class Visit>
  void for_stages_from(int first, const Visit& visit) const {
    if (first > 0 && !cost_.may_cut(first)) return;
    Ends ends;
    for (int last = first + 1; last <= cost_.layers(); ++last) {
      add_layer(first, last - 1, ends);
      if (last == cost_.layers() || cost_.may_cut(last)) visit(last, ends);
    }
  }

  // Returns the longest path from the end of a layer's forward through a reader of its output to the loss and back, with a device per
  // layer.
  [[nodiscard]] Row loops_behind_layers() const {
    Row longest(as_index(cost_.layers()), 0);
    for (std::size_t reader = 0; reader < read_by_.size(); ++reader)
      for (const Input& input : read_by_[reader])
        if (input.gradient && paths_.loop[reader] >= 0)
          longest[as_index(input.maker)] = std::max(longest[as_index(input.maker)], paths_.loop[reader] + 2 * input.copy_ns);
    return longest;
  }

  // Returns the same path after the last layer of a stage, with at most `most` stages. Only later stages read that layer.
  [[nodiscard]] ByStages loops_behind_cuts(int most) const {
    ByStages least(as_index(most) + 1, Row(as_index(cost_.layers()) + 1, kInfinite));
    const Row layers = loops_behind_layers();
    for (Row& of : least) of.back() = 0;
    for (int cut = cost_.layers() - 1; cut > 0; --cut)
      for_stages_from(cut, [&](int last, const Ends& ends) {
        for (int d = 1; d <= most; ++d) {
          const std::int64_t behind = least[as_index(d) - 1][as_index(last)];
          if (behind == kInfinite) continue;
          const std::int64_t through = 2 * (ends.given + action_ns_) + sum(one_forward_, cut, last) + behind + sum(one_input_, cut, last);
          lower(least[as_index(d)][as_index(cut)], std::max(layers[as_index(cut) - 1], ends.given >= 0 ? through : 0));
        }
      });
    for (int cut = 1; cut < cost_.layers(); ++cut)
      if (least[0][as_index(cut)] == kInfinite) least[0][as_index(cut)] = layers[as_index(cut) - 1];
    return least;
  }

  void add_layer(int first, int layer, Ends& ends) const {
    for (const Input& input : read_by_[as_index(layer)]) {
      if (input.maker >= first) continue;
      const bool next = input.maker + 1 == first;
      ends.made = std::max(ends.made, paths_.made[as_index(input.maker)] + input.copy_ns);
      if (next) ends.taken = std::max(ends.taken, input.copy_ns);
      if (!input.gradient) continue;
      ends.back = std::max(ends.back, paths_.back[as_index(input.maker)] + input.copy_ns);
      if (next) ends.given = std::max(ends.given, input.copy_ns);
    }
  }

  // `before` is the time until the stage can begin, `after` the time from its last backward on, `loop` from the end of a forward to its
  // gradient.
  [[nodiscard]] std::int64_t of_stage(int first, int last, int replicas, std::int64_t before, std::int64_t after, std::int64_t loop) const {
    const std::int64_t forwards = (sum(forward_, first, last) + actions_ns_) / replicas;
    const std::int64_t to_gradient = std::max(forwards, sum(one_forward_, first, last) + action_ns_ + loop);
    const std::int64_t inputs = (sum(input_, first, last) + actions_ns_) / replicas;
    const std::int64_t backwards = (sum(backward_, first, last) + actions_ns_) / replicas;
    return before + to_gradient + std::max(inputs + after, backwards + sum(updates_, first, last));
  }

  const CostModel& cost_;
  std::vector<SizeCosts> costs_;
  std::vector<LeastTimes> one_;  // least times over all micro-batches
  Paths paths_;
  std::vector<std::int64_t> forward_, backward_, input_, updates_;  // sums over the layers before each one, of all micro-batches
  std::vector<std::int64_t> one_forward_, one_input_;               // the same sums for the least of the micro-batches
  std::int64_t action_ns_ = 0, step_ns_ = 0, actions_ns_ = 0;       // actions_ns_: of one forward of each micro-batch
  std::vector<std::vector<Input>> read_by_;
};

// Returns the most stages; kInfinite: the space has no limit.
std::int64_t most_stages(const SearchSpace& space) {
  const auto devices = static_cast<std::int64_t>(space.devices.size());
  if (!space.stage_counts.empty()) return std::max<std::int64_t>(devices, std::ranges::max(space.stage_counts));
  if (!space.virtual_counts.empty()) return devices * std::ranges::max(space.virtual_counts);
  return space.capabilities.several_stages_per_device ? kInfinite : devices;
}

// The rows of `list` depend on costs, so it may split the backward.
bool may_split_backward(const std::string& schedule) {
  const ScheduleInfo& info = schedule_info(schedule);
  if (info.rows_from == RowsFrom::search) return true;
  PlanOptions options;
  options.devices = {"device:0", "device:1"};
  options.virtual_stages = info.least_virtual_stages;
  options.stages = options.layers = 2 * info.least_virtual_stages;
  options.batch = options.microbatches = info.one_microbatch ? 1 : 4;
  options.schedule = schedule;
  return splits_backward(make_plan(options));
}

bool may_split(const SearchSpace& space) {
  return space.capabilities.split_backward &&
         (may_help(space) || space.schedules.empty() || std::ranges::any_of(space.schedules, may_split_backward));
}

std::int64_t bound_of(const SearchSpace& space, const CostModel& cost, const std::vector<int>& devices, int microbatches) {
  const auto count = static_cast<std::int64_t>(devices.size());
  // Devices that help take weight gradients off a stage, so the number of stages does not bound the step.
  const std::int64_t stages = may_help(space) ? kInfinite : most_stages(space);
  const bool apart = stages <= count;
  const Bounds bounds(cost, devices, split_evenly(space.batch, microbatches), may_split(space), apart);
  const std::int64_t any = bounds.of_any_stages(count);
  const double cases =
      0.25 * static_cast<double>(cost.layers()) * cost.layers() * static_cast<double>(stages) * static_cast<double>(stages);
  if (cases > kMostStageCases) return any;
  const int fewest = space.stage_counts.empty() ? 1 : std::ranges::min(space.stage_counts);
  const std::int64_t few = bounds.of_stages(fewest, static_cast<int>(stages));
  // Where stages share a device, another device is idle.
  const std::int64_t shared = apart && count > 1 ? bounds.of_any_stages(count - 1) : kInfinite;
  return std::max(any, std::min(few, shared));
}

}  // namespace

std::int64_t graph_bound_ns(const SearchSpace& space, const CostModel& cost) {
  const std::vector<int> devices = cost.device_indices(space.devices);
  std::int64_t least = kInfinite;
  const Choices choices(space, cost, std::vector<std::int64_t>(space.devices.size(), 0));
  for (const int m : choices.counts()) least = std::min(least, bound_of(space, cost, devices, m));
  return least;
}

}  // namespace mptune::planner
