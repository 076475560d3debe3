#include "planner/cost/neighbours.h"

#include <algorithm>
#include <set>

#include "profiler/base/device_pool.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

constexpr int kWeightOfGpu = 12;  // halves, thirds and quarters of it are whole numbers

int size_of(const DeviceSpec& device) {
  if (device.kind == DeviceSpec::Kind::cpu) return static_cast<int>(device.cores.size());
  return device.kind == DeviceSpec::Kind::cuda ? kWeightOfGpu / std::min(device.parts, kWeightOfGpu) : 1;
}

bool any_overlap(const std::vector<DeviceSpec>& devices) {
  for (std::size_t a = 0; a < devices.size(); ++a)
    for (std::size_t b = a + 1; b < devices.size(); ++b)
      if (overlap(devices[a], devices[b])) return true;
  return false;
}

// Returns the size of everything that the devices are made of, each core and GPU counted once.
int size_of_all(const std::vector<DeviceSpec>& devices) {
  std::set<int> cores;
  std::set<int> gpus;
  int others = 0;
  for (const DeviceSpec& device : devices) {
    cores.insert(device.cores.begin(), device.cores.end());
    if (device.kind == DeviceSpec::Kind::cuda) gpus.insert(device.index);
    if (device.kind == DeviceSpec::Kind::sleep) ++others;
  }
  return static_cast<int>(cores.size()) + kWeightOfGpu * static_cast<int>(gpus.size()) + others;
}

}  // namespace

Neighbours neighbours_of(const Profile& profile, const std::vector<bool>& busy_classes) {
  std::vector<DeviceSpec> busy;
  int members = 0;
  for (const ProfileDevice& device : profile.devices) {
    if (!busy_classes[as_index(device.device_class)]) continue;
    ++members;
    if (auto spec = find_device(device.name)) busy.push_back(*std::move(spec));
  }
  const bool by_size = any_overlap(busy);
  const int all = by_size ? size_of_all(busy) : members;
  Neighbours result;
  for (const ProfileDevice& device : profile.devices) {
    const auto spec = by_size ? find_device(device.name) : std::nullopt;
    result.weights.push_back(spec ? size_of(*spec) : 1);
    result.others.push_back(busy_classes[as_index(device.device_class)] ? std::max(0, all - result.weights.back()) : 0);
  }
  return result;
}

}  // namespace mptune::planner
