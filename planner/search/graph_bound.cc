#include <algorithm>
#include <limits>
#include <ranges>
#include <vector>

#include "planner/plan.h"
#include "planner/search/families.h"
#include "planner/search/graph_search.h"
#include "planner/simulate/operations.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

// Least nanoseconds of a layer over the devices.
struct LeastTimes {
  std::int64_t forward = std::numeric_limits<std::int64_t>::max();
  std::int64_t backward = std::numeric_limits<std::int64_t>::max();  // whole, or both parts
  std::int64_t input = std::numeric_limits<std::int64_t>::max();     // what the layers before it wait for
};

std::vector<LeastTimes> least_times(const CostModel& cost, const std::vector<int>& devices, int samples) {
  std::vector<LeastTimes> least(as_index(cost.layers()));
  for (int layer = 0; layer < cost.layers(); ++layer)
    for (const int device : devices) {
      const LayerTimes times = cost.layer(device, layer, samples);
      LeastTimes& of = least[as_index(layer)];
      const std::int64_t input = to_ns(times.backward_input_s), whole = to_ns(times.backward_s);
      of.forward = std::min(of.forward, to_ns(times.forward_s));
      of.backward = std::min({of.backward, whole, input + to_ns(times.backward_weight_s)});
      of.input = std::min({of.input, input, whole});
    }
  return least;
}

std::int64_t work_of(const std::vector<LeastTimes>& layers) {
  std::int64_t sum = 0;
  for (const LeastTimes& layer : layers) sum += layer.forward + layer.backward;
  return sum;
}

// Of one micro-batch: forward to the last layer, which has the loss, and from there back.
std::int64_t longest_path(const CostModel& cost, const std::vector<LeastTimes>& layers) {
  std::vector<std::int64_t> before(layers.size(), 0), behind(layers.size(), -1);
  // Tensors are ordered by their makers.
  for (const ProfileTensor& tensor : cost.tensors()) {
    const std::int64_t made = before[as_index(tensor.maker)] + layers[as_index(tensor.maker)].forward;
    for (const int reader : tensor.readers) before[as_index(reader)] = std::max(before[as_index(reader)], made);
  }
  behind.back() = 0;
  for (const ProfileTensor& tensor : cost.tensors() | std::views::reverse)
    for (const int reader : tensor.gradient_readers) {
      if (behind[as_index(reader)] < 0) continue;
      std::int64_t& most = behind[as_index(tensor.maker)];
      most = std::max(most, behind[as_index(reader)] + layers[as_index(reader)].input);
    }
  std::int64_t back = 0;
  for (std::size_t layer = 0; layer < layers.size(); ++layer)
    if (behind[layer] >= 0) back = std::max(back, behind[layer] + layers[layer].input);
  return before.back() + layers.back().forward + back;
}

// Times that every device has at least.
template <class Seconds>
std::int64_t least_ns(const std::vector<int>& devices, const Seconds& seconds) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const int device : devices) least = std::min(least, to_ns(seconds(device)));
  return least;
}

std::int64_t bound_of(const CostModel& cost, const std::vector<int>& devices, const std::vector<int>& sizes) {
  const auto count = static_cast<std::int64_t>(devices.size());
  std::int64_t work = 0, path = 0;
  for (const int size : {sizes.front(), sizes.back()}) {
    const std::vector<LeastTimes> layers = least_times(cost, devices, size);
    path = std::max(path, longest_path(cost, layers));
    work += work_of(layers) * std::ranges::count(sizes, size);
    if (sizes.front() == sizes.back()) break;
  }
  const std::int64_t action = least_ns(devices, [&](int device) { return cost.action_seconds(device); });
  std::int64_t updates = 0;
  for (int layer = 0; layer < cost.layers(); ++layer)
    updates += least_ns(devices, [&](int device) { return cost.optimizer_seconds(device, layer); });
  work += 2 * action * static_cast<std::int64_t>(sizes.size());
  return std::max((work + count - 1) / count, path + 2 * action) + (updates + count - 1) / count +
         least_ns(devices, [&](int device) { return cost.step_seconds(device); });
}

}  // namespace

std::int64_t graph_bound_ns(const SearchSpace& space, const CostModel& cost) {
  const std::vector<int> devices = cost.device_indices(space.devices);
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  const Choices choices(space, cost, std::vector<std::int64_t>(space.devices.size(), 0));
  for (const int m : choices.counts()) least = std::min(least, bound_of(cost, devices, split_evenly(space.batch, m)));
  return least;
}

}  // namespace mptune::planner
