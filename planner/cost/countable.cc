#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "planner/cost/cost_model.h"
#include "profiler/base/error.h"
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

SlowestLink slowest_link(const Profile& profile) {
  SlowestLink slowest;
  for (const LinkCost& link : profile.links) {
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

}  // namespace

// What a layer takes is a line between its measured sizes and beyond them, so per sample it is most at one of these sizes, or at an end.
CostModel::Load CostModel::most_per_sample(int device, int layer) const {
  std::vector<int> sizes{1, std::numeric_limits<int>::max()};
  const std::size_t curve = class_of(device) * profile_.layers.size() + as_index(layer);
  for (std::size_t p = curve_starts_[curve]; p < curve_starts_[curve + 1]; ++p) sizes.push_back(static_cast<int>(points_[p].samples));
  Load most;
  for (const int size : sizes) {
    const double saved = bytes_at(device, layer, size, &Point::saved_activation_bytes);
    const double seconds = most_seconds(this->layer(device, layer, size)) + host_copies_seconds(profile_.devices[as_index(device)], saved);
    most.seconds = std::max(most.seconds, seconds / size);
    // Counts bytes that are kept, held for the weight gradients, and kept again by the two actions of a recomputation.
    double bytes = 4 * saved;
    for (double Point::*more : {&Point::workspace_bytes, &Point::held_bytes, &Point::held_input_bytes, &Point::input_workspace_bytes,
                                &Point::weight_workspace_bytes})
      bytes += std::max(0.0, bytes_at(device, layer, size, more));
    most.bytes = std::max(most.bytes, bytes / size);
  }
  return most;
}

void CostModel::add_layer_loads() {
  std::vector<int> devices(profile_.classes.size(), -1);
  for (int d = static_cast<int>(profile_.devices.size()); d-- > 0;) devices[class_of(d)] = d;
  std::erase(devices, -1);
  for (int layer = 0; layer < layers(); ++layer) {
    Load slowest;
    for (const int device : devices) {
      const Load load = most_per_sample(device, layer);
      slowest = {std::max(slowest.seconds, load.seconds), std::max(slowest.bytes, load.bytes)};
    }
    const ProfileLayer& owned = profile_.layers[as_index(layer)];
    per_sample_.seconds += slowest.seconds;
    per_sample_.bytes += slowest.bytes;
    fixed_.bytes += (2 + profile_.optimizer_state_factor) * static_cast<double>(owned.parameters_bytes);
    fixed_.bytes += static_cast<double>(owned.buffers_bytes);
    if (owned.batch_statistics) per_sample_.bytes += static_cast<double>(owned.buffers_bytes);
  }
}

// Counts every layer as a stage of its own, every micro-batch as one sample, and nothing at the same time as anything else.
void CostModel::add_loads() {
  add_layer_loads();
  double action_s = 0;
  double update_s_per_byte = 0;
  double sum_s = 0;
  double reserve = 0;
  for (const DeviceClass& device_class : profile_.classes) {
    action_s = std::max(action_s, device_class.action_seconds);
    fixed_.seconds = std::max(fixed_.seconds, device_class.step_seconds);
    update_s_per_byte = std::max(update_s_per_byte, device_class.optimizer_seconds_per_byte);
    reserve = std::max(reserve, device_class.allocator_reserve);
    fixed_.bytes += static_cast<double>(device_class.library_bytes);
  }
  for (const LinkCost& link : profile_.links) fixed_.bytes += 2 * static_cast<double>(link.communicator_bytes);
  const std::int64_t parameters = parameters_bytes(0, layers());
  const int devices = static_cast<int>(profile_.devices.size());
  for (int d = 0; d < devices; ++d) {
    double device_s = 0;
    for (int layer = 0; layer < layers(); ++layer) device_s += reduce_seconds(d, layer, devices, 1);
    sum_s = std::max(sum_s, device_s);
  }
  fixed_.seconds += update_s_per_byte * static_cast<double>(parameters) + sum_s;
  per_sample_.seconds += 3 * action_s * layers();
  const SlowestLink link = slowest_link(profile_);
  for (int cut = 1; cut < layers(); ++cut) {
    per_sample_.seconds += 2 * link.fixed_s;
    for (const auto* boundaries : {&outputs_, &gradients_}) {
      const TensorSize& boundary = (*boundaries)[as_index(cut)];
      const double bytes = static_cast<double>(boundary.bytes_per_sample) + static_cast<double>(boundary.fixed_bytes);
      per_sample_.seconds += link.seconds_per_byte * bytes;
      // A tensor lies in a communication buffer, after a recomputed piece, for a later stage of the device, and twice on the way to another
      // one.
      per_sample_.bytes += 5 * bytes;
    }
  }
  for (const ProfileTensor& tensor : tensors_)
    per_sample_.seconds += link.fixed_s * static_cast<double>(tensor.readers.size() + tensor.gradient_readers.size());
  const auto reading = static_cast<double>(std::ranges::count(reads_inputs_, true));
  per_sample_.bytes =
      (per_sample_.bytes + reading * static_cast<double>(input_bytes_per_sample_ + profile_.target_bytes_per_sample)) * (1 + reserve);
  fixed_.bytes *= 1 + reserve;
}

void CostModel::require_countable(std::int64_t samples) const {
  const auto many = static_cast<double>(samples);
  const auto refuse = [&](const std::string& what) {
    throw Error("a step of " + std::to_string(samples) + " samples may take more than " + what, profile_.model,
                "use a smaller batch, or profile the model again");
  };
  // The comparisons are written so that a value that is no number is refused.
  if (!(fixed_.seconds + many * per_sample_.seconds <= kMostStepSeconds)) refuse("10^9 seconds");
  if (!(fixed_.bytes + many * per_sample_.bytes <= kMostStepBytes)) refuse("2^60 bytes");
}

}  // namespace mptune
