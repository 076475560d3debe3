#include "profiler/device/list/device_list.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/rank.h"
#include "profiler/base/text.h"
#include "profiler/base/units.h"
#include "profiler/device/list/gpu_driver.h"

namespace mptune {
namespace {

constexpr int kMostAutoDevices = 8;

void require_gpu(const DeviceSpec& device) {
  const profiler::GpuDriver& driver = profiler::gpu_driver();
  if (!driver.problem.empty()) {
    throw Error(driver.problem, device.name, "install the NVIDIA driver, or name CPU devices: --devices cpu:0,cpu:1",
                ExitCode::environment);
  }
  if (device.index >= driver.gpus) {
    throw Error("there is no such GPU", device.name, "this machine has " + std::to_string(driver.gpus) + ", counted from cuda:0",
                ExitCode::environment);
  }
}

std::string core_ranges(const std::vector<int>& cores) {
  std::string text;
  for (std::size_t i = 0; i < cores.size();) {
    std::size_t last = i;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
    text.append(text.empty() ? "" : ",").append(cpu_name(cores[i], cores[last]).substr(4));
    i = last + 1;
  }
  return text;
}

/// Checks a whole list: no duplicates, all cores available, sleeping devices not mixed with others.
void check_list(const std::vector<DeviceSpec>& devices) {
  const std::vector<int> available = available_cores();
  const int own_rank = std::ranges::any_of(devices, [](const auto& device) { return names_rank(device.name); }) ? rank_place().rank : 0;
  std::set<std::string> names;
  std::set<std::pair<int, int>> cores;       // of a rank
  std::map<std::pair<int, int>, int> parts;  // of a GPU of a rank
  for (const DeviceSpec& device : devices) {
    if (!names.insert(device.name).second) throw Error("device '" + device.name + "' is named twice", "--devices", "name each device once");
    if ((device.kind == DeviceSpec::Kind::sleep) != (devices.front().kind == DeviceSpec::Kind::sleep))
      throw Error("sleeping devices can't be mixed with others", "--devices", "use sleep:K alone");
    if (device.kind == DeviceSpec::Kind::cuda) {
      if (device.rank == own_rank) require_gpu(device);
      if (parts.try_emplace({device.rank, device.index}, device.parts).first->second != device.parts) {
        throw Error(gpu_name(device.index) + " is divided in two ways", "--devices",
                    "use a whole GPU, or parts of equal size: cuda:0/1of2,cuda:0/2of2");
      }
    }
    for (const int core : device.cores) {
      if (device.rank == own_rank && !std::ranges::binary_search(available, core)) {
        throw Error("core " + std::to_string(core) + " is not available", "--devices",
                    "this process may use cores " + core_ranges(available));
      }
      if (!cores.insert({device.rank, core}).second)
        throw Error("core " + std::to_string(core) + " belongs to two devices", "--devices", "give each core to one device");
    }
  }
}

std::vector<DeviceSpec> automatic_devices() {
  std::vector<DeviceSpec> devices;
  for (int gpu = 0; gpu < profiler::gpu_driver().gpus; ++gpu) devices.push_back(parse_device(gpu_name(gpu)));
  if (!devices.empty()) return devices;
  for (const int core : available_cores()) {
    if (static_cast<int>(devices.size()) == kMostAutoDevices) break;
    devices.push_back(parse_device(cpu_name(core, core)));
  }
  return devices;
}

void refuse_overlap(const DevicePool& pool, const std::vector<DeviceSpec>& devices) {
  for (const DeviceSpec& device : devices) {
    if (overlap(pool.whole, device))
      throw Error(device.name + " overlaps with the pool " + pool.name(), "--devices", "give each core and each GPU to one of them");
  }
}

void add_named(const std::string& name, std::vector<DeviceSpec>& devices) {
  DeviceSpec device = parse_device(name);
  if (device.kind != DeviceSpec::Kind::sleep) return devices.push_back(std::move(device));
  if (names_rank(name)) throw Error("sleeping devices belong to no rank", name, "use sleep:K alone, without a rank");
  if (device.index < 1 || device.index > DeviceSpec::kMostDevices) {
    throw Error("invalid number of sleeping devices '" + name + "'", "--devices",
                "use sleep:K with K from 1 to " + std::to_string(DeviceSpec::kMostDevices));
  }
  for (int i = 0; i < device.index; ++i) devices.push_back(parse_device("sleep:" + std::to_string(i)));
}

}  // namespace

std::vector<DeviceSpec> parse_devices(const std::string& list) {
  const DeviceChoice choice = parse_device_choice(list);
  if (!choice.pools.empty()) {
    throw Error(choice.pools.front().name() + " leaves open how it is divided", "--devices",
                "name the devices, such as " + join(even_division(choice.pools.front()), ",") + ", or give the plan file of mptune tune");
  }
  return choice.devices;
}

DeviceChoice parse_device_choice(const std::string& list) {
  DeviceChoice choice;
  if (list == "auto") return {automatic_devices(), {}};
  for (const std::string& name : split(list, ',')) {
    if (!names_pool(name)) {
      add_named(name, choice.devices);
      for (const DevicePool& pool : choice.pools) refuse_overlap(pool, {choice.devices.back()});
      continue;
    }
    choice.pools.push_back(parse_pool(name));
    refuse_overlap(choice.pools.back(), choice.devices);
    for (const std::string& device : even_division(choice.pools.back())) choice.devices.push_back(parse_device(device));
  }
  check_list(choice.devices);
  return choice;
}

std::vector<DeviceSpec> parse_device_names(const std::vector<std::string>& names) {
  if (names.empty()) throw Error("no device is named", "--devices", "name at least one, such as cpu:0");
  std::vector<DeviceSpec> devices;
  for (const std::string& name : names) devices.push_back(parse_device(name));
  check_list(devices);
  return devices;
}

LinkThrottle parse_link(const std::string& text) {
  if (text.empty()) return {};
  const char* remedy = "give bandwidth and latency, such as 12GB/s,10us";
  const std::vector<std::string> parts = split(text, ',');
  const auto bandwidth = parse_quantity(parts[0]);
  std::optional<double> factor;
  if (bandwidth && bandwidth->unit.ends_with("/s")) {
    const std::string unit = bandwidth->unit.substr(0, bandwidth->unit.size() - 2);
    factor = unit.empty() ? std::nullopt : byte_unit(unit);
  }
  if (!factor || parts.size() > 2) throw Error("invalid link '" + text + "'", "--link", remedy);
  LinkThrottle link{.bytes_per_second = bandwidth->value * *factor, .latency_s = 0};
  if (link.bytes_per_second < 1 || link.bytes_per_second > 1e15)
    throw Error("bandwidth '" + parts[0] + "' is out of range", "--link", "use 1 B/s to 1000 TB/s");
  if (parts.size() == 2) {
    if (const auto latency = parse_quantity(parts[1]); latency && latency->unit.empty())
      throw Error("latency '" + parts[1] + "' has no unit", "--link", remedy);
    link.latency_s = parse_seconds(parts[1], "--link");
    if (link.latency_s > 60) throw Error("latency '" + parts[1] + "' is out of range", "--link", "use at most 60 s");
  }
  return link;
}

std::vector<std::int64_t> parse_memory(const std::string& text, const std::vector<DeviceSpec>& devices) {
  std::vector<std::int64_t> caps(devices.size(), 0);
  if (text.empty()) return caps;
  if (text.find('=') == std::string::npos) {
    std::ranges::fill(caps, parse_bytes(text, "--memory"));
    return caps;
  }
  for (const std::string& part : split(text, ',')) {
    const auto equals = part.find('=');
    const std::string name = part.substr(0, equals);
    const auto device = std::ranges::find(devices, name, &DeviceSpec::name);
    if (equals == std::string::npos || device == devices.end())
      throw Error("'" + part + "' is not a device of this run", "--memory", "use one size, or DEVICE=SIZE for devices of --devices");
    auto& cap = caps[as_index(device - devices.begin())];
    if (cap != 0) throw Error("device '" + name + "' has two caps", "--memory", "give one size for each device");
    cap = parse_bytes(part.substr(equals + 1), "--memory");
  }
  return caps;
}

std::vector<int> available_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof mask, &mask) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(as_index(core), &mask)) cores.push_back(core);
  } else {
    // The machine has more cores than the mask holds: assume that all may be used.
    for (unsigned core = 0; core < std::max(1U, std::thread::hardware_concurrency()); ++core) cores.push_back(static_cast<int>(core));
  }
  return cores;
}

}  // namespace mptune
