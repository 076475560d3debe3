#include "reports/cli/commands/plan_devices.h"

#include <algorithm>
#include <utility>

#include "planner/search/space/suited_space.h"
#include "profiler/base/error.h"
#include "profiler/base/text.h"
#include "profiler/device/list/device_list.h"
#include "reports/cli/commands/fit_errors.h"
#include "reports/cli/options/options.h"
#include "reports/render/style.h"

namespace mptune::reports {
namespace {

/// Throws Error unless the profile was measured for this pool.
DevicePool profiled_pool(const std::string& name, const PlanInput& input) {
  DevicePool pool = parse_pool(name);
  if (std::ranges::find(input.pools, pool) == input.pools.end()) {
    TrainingSpec training = input.training;
    training.devices = name;
    const std::string again = training.model.empty() ? "" : " with `" + training_command("profile", training).text() + "`";
    throw Error("the profile does not know the pool " + name, "--devices", "profile the model again on it" + again);
  }
  return pool;
}

bool knows(const Profile& profile, const std::string& device) {
  return std::ranges::find(profile.devices, device, &ProfileDevice::name) != profile.devices.end();
}

DeviceSpec profiled_device(const std::string& name, const PlanInput& input) {
  const auto listed = std::ranges::find(input.devices, name, &DeviceSpec::name);
  if (listed != input.devices.end()) return *listed;
  if (input.pools.empty() || !knows(input.profile, name))
    throw Error("device '" + name + "' is not in the profile", "--devices", "use devices that were profiled, or profile again");
  return parse_device(name);
}

/// A simulated plan needs no device of this machine, only devices of the profile. Without --devices it gets all of them and the pools.
DeviceChoice chosen_devices(const std::string& names, const PlanInput& input) {
  if (names.empty()) return {input.devices, input.pools};
  DeviceChoice choice;
  const auto add = [&](const DeviceSpec& device) {
    for (const DeviceSpec& other : choice.devices) {
      if (other.name == device.name) throw Error("device '" + device.name + "' is named twice", "--devices", "name each device once");
      if (!input.pools.empty() && overlap(other, device))
        throw Error(device.name + " and " + other.name + " overlap", "--devices", "give each core, or part of a GPU, to one device");
    }
    choice.devices.push_back(device);
  };
  for (const std::string& name : split(names, ',')) {
    if (!names_pool(name)) {
      add(profiled_device(name, input));
      continue;
    }
    choice.pools.push_back(profiled_pool(name, input));
    for (const std::string& device : even_division(choice.pools.back())) add(parse_device(device));
  }
  return choice;
}

/// Fills in what the profile says where the user gives no cap.
std::vector<std::int64_t> with_profiled_caps(std::vector<std::int64_t> caps, const std::vector<std::string>& devices,
                                             const Profile& profile) {
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const auto known = std::ranges::find(profile.devices, devices[i], &ProfileDevice::name);
    if (caps[i] == 0 && known != profile.devices.end()) caps[i] = known->memory_bytes;
  }
  return caps;
}

}  // namespace

SearchSpace chosen_space(const PlanChoice& choice, const std::string& devices, const std::string& memory, int batch, PlanInput& input) {
  const DeviceChoice chosen = chosen_devices(devices, input);
  std::vector<std::string> names;
  for (const DeviceSpec& device : chosen.devices) names.push_back(device.name);
  const auto caps = with_profiled_caps(memory_caps(memory, chosen.devices, chosen.pools), names, input.profile);
  std::vector<Division> divisions = divisions_with_caps(memory, chosen.devices, chosen.pools);
  for (Division& division : divisions)
    division.memory_bytes = with_profiled_caps(std::move(division.memory_bytes), division.devices, input.profile);
  SearchSpace space =
      planner::suited_space(search_space(choice, chosen.devices, caps, batch, input.profile.layers, divisions), input.profile.layers);
  // Some of the profile's cores were not measured as one device.
  std::erase_if(space.whole_machine, [&](const std::string& whole) { return !knows(input.profile, whole); });
  input.profile = with_caps(std::move(input.profile), space.devices, space.memory_bytes);
  for (const Division& division : space.divisions)
    input.profile = with_caps(std::move(input.profile), division.devices, division.memory_bytes);
  return space;
}

std::string names_of(const std::vector<DevicePool>& pools) {
  std::vector<std::string> names;
  for (const DevicePool& pool : pools) names.push_back(pool.name());
  return join(names, ", ");
}

}  // namespace mptune::reports
