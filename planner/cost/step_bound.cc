#include "planner/cost/step_bound.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/cost/replica_costs.h"
#include "planner/plan/plan_error.h"
#include "profiler/base/index.h"

namespace mptune {
namespace {

constexpr double kMostStepSeconds = 1e9;  // a ninth of 2^63 ns
constexpr double kMostStepBytes = 0x1p60;

// Straight lines: no copy on any link of the profile takes longer than fixed_s + bytes * seconds_per_byte.
struct SlowestLink {
  double fixed_s = 0;
  double seconds_per_byte = 0;
};

void add_measured_link(SlowestLink& slowest, const LinkCost& link) {
  slowest.fixed_s = std::max(slowest.fixed_s, link.latency_s);
  if (link.curve.empty() && link.bytes_per_second > 0)
    slowest.seconds_per_byte = std::max(slowest.seconds_per_byte, 1 / link.bytes_per_second);
  LinkPoint before{0, 0};
  for (const LinkPoint& point : link.curve) {
    slowest.fixed_s = std::max(slowest.fixed_s, point.seconds);
    const double slope = (point.seconds - before.seconds) / static_cast<double>(point.bytes - before.bytes);
    slowest.seconds_per_byte = std::max(slowest.seconds_per_byte, slope);
    before = point;
  }
}

SlowestLink slowest_link(const Profile& profile) {
  SlowestLink slowest;
  for (const LinkCost& link : profile.links) add_measured_link(slowest, link);
  std::vector<NetworkLink> network = profile.network.within;
  if (!profile.network.empty()) network.push_back(profile.network.between);
  for (const NetworkLink& link : network) {
    if (link.bytes_per_second <= 0) continue;  // a host of one device, or the only host: nothing is copied there
    slowest.fixed_s = std::max(slowest.fixed_s, link.latency_s);
    slowest.seconds_per_byte = std::max(slowest.seconds_per_byte, 1 / link.bytes_per_second);
  }
  return slowest;
}

// Returns the seconds of copies both ways between the device and the host; 0 for a way that was not measured.
double host_copies_seconds(const ProfileDevice& device, double bytes) {
  double seconds = 0;
  for (const HostCopies& copies : {device.to_host, device.from_host})
    if (copies.bytes_per_second > 0) seconds += copies.latency_s + bytes / copies.bytes_per_second + bytes * copies.device_seconds_per_byte;
  return seconds;
}

// Counts forward twice (recomputation) and backward once, whole or split; the halves of a split one may each be slowed like the whole.
double most_seconds(const LayerTimes& times) {
  return 2 * times.forward_busy_s + 3 * times.backward_busy_s + times.backward_input_s + times.backward_weight_s;
}

// Counts bytes that are kept, held for the weight gradients, and kept again by the two actions of a recomputation.
double most_bytes(const MemoryCurve& memory, int samples) {
  double bytes = 4 * memory.at(samples, &MemoryPoint::saved_activation_bytes);
  for (double MemoryPoint::*more : {&MemoryPoint::workspace_bytes, &MemoryPoint::held_bytes, &MemoryPoint::held_input_bytes,
                                    &MemoryPoint::input_workspace_bytes, &MemoryPoint::weight_workspace_bytes})
    bytes += std::max(0.0, memory.at(samples, more));
  return bytes;
}

// Returns a device of each class that has one.
std::vector<int> device_of_each_class(const Profile& profile) {
  std::vector<int> devices(profile.classes.size(), -1);
  for (int d = static_cast<int>(profile.devices.size()); d-- > 0;) devices[as_index(profile.devices[as_index(d)].device_class)] = d;
  std::erase(devices, -1);
  return devices;
}

}  // namespace

// Counts every layer as a stage of its own, every micro-batch as one sample, and nothing at the same time as anything else.
StepBound::StepBound(const CostModel& cost) : model_(cost.profile().model) {
  add_layers(cost);
  add_classes(cost.profile());
  add_updates(cost);
  add_copies(cost);
  add_inputs(cost);
  add_reserve(cost.profile());
}

// What a layer takes is a line between its measured sizes and beyond them, so per sample it is most at one of these sizes, or at an end.
StepBound::Load StepBound::most_per_sample(const CostModel& cost, int device, int layer) {
  const MemoryCurve& memory = cost.memory().curve(device, layer);
  std::vector<int> sizes = memory.sizes();
  sizes.insert(sizes.end(), {1, std::numeric_limits<int>::max()});
  Load most;
  for (const int size : sizes) {
    const double saved = memory.at(size, &MemoryPoint::saved_activation_bytes);
    const double copies_s = host_copies_seconds(cost.profile().devices[as_index(device)], saved);
    most.seconds = std::max(most.seconds, (most_seconds(cost.layer(device, layer, size)) + copies_s) / size);
    most.bytes = std::max(most.bytes, most_bytes(memory, size) / size);
  }
  return most;
}

void StepBound::add_layers(const CostModel& cost) {
  const std::vector<int> devices = device_of_each_class(cost.profile());
  for (int layer = 0; layer < cost.layers(); ++layer) {
    Load slowest;
    for (const int device : devices) {
      const Load load = most_per_sample(cost, device, layer);
      slowest = {std::max(slowest.seconds, load.seconds), std::max(slowest.bytes, load.bytes)};
    }
    const ProfileLayer& owned = cost.profile().layers[as_index(layer)];
    per_sample_.seconds += slowest.seconds;
    per_sample_.bytes += slowest.bytes;
    fixed_.bytes += (2 + cost.profile().optimizer_state_factor) * static_cast<double>(owned.parameters_bytes);
    fixed_.bytes += static_cast<double>(owned.buffers_bytes);
    if (owned.batch_statistics) per_sample_.bytes += static_cast<double>(owned.buffers_bytes);
  }
}

void StepBound::add_classes(const Profile& profile) {
  double action_s = 0;
  for (const DeviceClass& device_class : profile.classes) {
    action_s = std::max(action_s, device_class.action_seconds);
    fixed_.seconds = std::max(fixed_.seconds, device_class.step_seconds);
    fixed_.bytes += static_cast<double>(device_class.library_bytes);
  }
  for (const LinkCost& link : profile.links) fixed_.bytes += 2 * static_cast<double>(link.communicator_bytes);
  per_sample_.seconds += 3 * action_s * static_cast<int>(profile.layers.size());
}

void StepBound::add_updates(const CostModel& cost) {
  double update_s_per_byte = 0;
  for (const DeviceClass& device_class : cost.profile().classes)
    update_s_per_byte = std::max(update_s_per_byte, device_class.optimizer_seconds_per_byte);
  const int devices = static_cast<int>(cost.profile().devices.size());
  double sum_s = 0;
  for (int d = 0; d < devices; ++d) {
    double device_s = 0;
    for (int layer = 0; layer < cost.layers(); ++layer) device_s += planner::reduce_seconds(cost, d, layer, devices, 1);
    sum_s = std::max(sum_s, device_s);
  }
  fixed_.seconds += update_s_per_byte * static_cast<double>(cost.parameters_bytes(0, cost.layers())) + sum_s;
}

void StepBound::add_copies(const CostModel& cost) {
  const SlowestLink link = slowest_link(cost.profile());
  for (int cut = 1; cut < cost.layers(); ++cut) {
    per_sample_.seconds += 2 * link.fixed_s;
    for (const bool gradients : {false, true}) {
      const TensorSize& boundary = cost.tensors().boundary(cut, gradients);
      const double bytes = static_cast<double>(boundary.bytes_per_sample) + static_cast<double>(boundary.fixed_bytes);
      per_sample_.seconds += link.seconds_per_byte * bytes;
      // A tensor lies in a communication buffer, after a recomputed piece, for a later stage of the device, and twice on the way to another
      // one.
      per_sample_.bytes += 5 * bytes;
    }
  }
  for (const ProfileTensor& tensor : cost.tensors().all())
    per_sample_.seconds += link.fixed_s * static_cast<double>(tensor.readers.size() + tensor.gradient_readers.size());
}

void StepBound::add_inputs(const CostModel& cost) {
  int reading = 0;
  for (int layer = 0; layer < cost.layers(); ++layer) reading += cost.tensors().reads_inputs(layer) ? 1 : 0;
  per_sample_.bytes += reading * static_cast<double>(cost.tensors().input_bytes_per_sample() + cost.profile().target_bytes_per_sample);
}

void StepBound::add_reserve(const Profile& profile) {
  double reserve = 0;
  for (const DeviceClass& device_class : profile.classes) reserve = std::max(reserve, device_class.allocator_reserve);
  per_sample_.bytes *= 1 + reserve;
  fixed_.bytes *= 1 + reserve;
}

void StepBound::require_countable(std::int64_t samples) const {
  const auto many = static_cast<double>(samples);
  const auto refuse = [&](const std::string& what) {
    throw planner::PlanError("a step of " + std::to_string(samples) + " samples may take more than " + what, model_,
                             "use a smaller batch, or profile the model again");
  };
  // The comparisons are written so that a value that is no number is refused.
  if (!(fixed_.seconds + many * per_sample_.seconds <= kMostStepSeconds)) refuse("10^9 seconds");
  if (!(fixed_.bytes + many * per_sample_.bytes <= kMostStepBytes)) refuse("2^60 bytes");
}

}  // namespace mptune
