#include "mptune/profiler/device/device_spec.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <thread>

#include "mptune/profiler/base/error.h"
#include "mptune/profiler/base/text.h"
#include "mptune/profiler/base/units.h"
#include "mptune/profiler/device/gpu_driver.h"

namespace mptune {
namespace {

constexpr int kMostAutoDevices = 8;
constexpr int kMostDevices = 256;
constexpr int kMostCores = 4096;
constexpr int kMostParts = 16;

std::string range_text(int first, int last) {
  std::string text = std::to_string(first);
  if (last > first) {
    text.append("-").append(std::to_string(last));
  }
  return text;
}

[[noreturn]] void reject_device(const std::string& name) {
  throw Error("invalid device '" + name + "'", "--devices", "use cpu:0, cpu:0-3, cuda:1, cuda:0/1of2 or sleep:4, separated by commas");
}

DeviceSpec cpu_device(const std::string& name, const std::string& numbers) {
  const auto dash = numbers.find('-');
  const auto first = integer(numbers.substr(0, dash));
  const auto last = dash == std::string::npos ? first : integer(numbers.substr(dash + 1));
  if (!first || !last || *first < 0 || *last < *first || *last >= kMostCores) {
    reject_device(name);
  }
  DeviceSpec device{.kind = DeviceSpec::Kind::cpu, .name = "", .cores = {}, .index = static_cast<int>(*first)};
  for (int core = static_cast<int>(*first); core <= *last; ++core) {
    device.cores.push_back(core);
  }
  device.name = "cpu:" + range_text(device.cores.front(), device.cores.back());
  return device;
}

/// `rest` is the part behind "cuda:": "1" or "0/1of2".
DeviceSpec cuda_device(const std::string& name, const std::string& rest) {
  const auto slash = rest.find('/');
  const auto index = integer(rest.substr(0, slash));
  if (!index || *index < 0 || *index >= kMostDevices) {
    reject_device(name);
  }
  DeviceSpec device{
      .kind = DeviceSpec::Kind::cuda, .name = "cuda:" + std::to_string(*index), .cores = {}, .index = static_cast<int>(*index)};
  if (slash == std::string::npos) {
    return device;
  }
  const std::string division = rest.substr(slash + 1);
  const auto of = division.find("of");
  const auto part = integer(division.substr(0, of));
  const auto parts = of == std::string::npos ? std::nullopt : integer(division.substr(of + 2));
  if (!part || !parts || *parts < 2 || *parts > kMostParts || *part < 1 || *part > *parts) {
    reject_device(name);
  }
  device.part = static_cast<int>(*part) - 1;
  device.parts = static_cast<int>(*parts);
  device.name.append("/").append(std::to_string(*part)).append("of").append(std::to_string(*parts));
  return device;
}

void require_gpu(const DeviceSpec& device) {
  const GpuDriver& driver = gpu_driver();
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
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) {
      ++last;
    }
    text.append(text.empty() ? "" : ",").append(range_text(cores[i], cores[last]));
    i = last + 1;
  }
  return text;
}

/// Checks a whole list: no duplicates, all cores available, sleeping devices not mixed with others.
void check_list(const std::vector<DeviceSpec>& devices) {
  const std::vector<int> available = available_cores();
  std::set<std::string> names;
  std::set<int> cores;
  std::map<int, int> parts;
  for (const DeviceSpec& device : devices) {
    if (!names.insert(device.name).second) {
      throw Error("device '" + device.name + "' is named twice", "--devices", "name each device once");
    }
    if ((device.kind == DeviceSpec::Kind::sleep) != (devices.front().kind == DeviceSpec::Kind::sleep)) {
      throw Error("sleeping devices can't be mixed with others", "--devices", "use sleep:K alone");
    }
    if (device.kind == DeviceSpec::Kind::cuda) {
      require_gpu(device);
      if (parts.try_emplace(device.index, device.parts).first->second != device.parts) {
        throw Error("cuda:" + std::to_string(device.index) + " is divided in two ways", "--devices",
                    "use a whole GPU, or parts of equal size: cuda:0/1of2,cuda:0/2of2");
      }
    }
    for (const int core : device.cores) {
      if (!std::ranges::binary_search(available, core)) {
        throw Error("core " + std::to_string(core) + " is not available", "--devices",
                    "this process may use cores " + core_ranges(available));
      }
      if (!cores.insert(core).second) {
        throw Error("core " + std::to_string(core) + " belongs to two devices", "--devices", "give each core to one device");
      }
    }
  }
}

std::vector<DeviceSpec> automatic_devices() {
  std::vector<DeviceSpec> devices;
  for (int gpu = 0; gpu < gpu_driver().gpus; ++gpu) {
    devices.push_back(parse_device("cuda:" + std::to_string(gpu)));
  }
  if (!devices.empty()) {
    return devices;
  }
  for (const int core : available_cores()) {
    if (static_cast<int>(devices.size()) == kMostAutoDevices) {
      break;
    }
    devices.push_back(parse_device("cpu:" + std::to_string(core)));
  }
  return devices;
}

}  // namespace

DeviceSpec parse_device(const std::string& name) {
  const auto colon = name.find(':');
  if (colon == std::string::npos) {
    reject_device(name);
  }
  const std::string kind = name.substr(0, colon);
  const std::string rest = name.substr(colon + 1);
  if (kind == "cpu") {
    return cpu_device(name, rest);
  }
  if (kind == "cuda") {
    return cuda_device(name, rest);
  }
  const auto index = integer(rest);
  if (!index || *index < 0 || *index >= kMostCores || kind != "sleep") {
    reject_device(name);
  }
  return {.kind = DeviceSpec::Kind::sleep, .name = "sleep:" + std::to_string(*index), .cores = {}, .index = static_cast<int>(*index)};
}

std::vector<DeviceSpec> parse_devices(const std::string& list) {
  if (list == "auto") {
    return automatic_devices();
  }
  std::vector<DeviceSpec> devices;
  for (const std::string& name : split(list, ',')) {
    DeviceSpec device = parse_device(name);
    if (device.kind != DeviceSpec::Kind::sleep) {
      devices.push_back(std::move(device));
      continue;
    }
    if (device.index < 1 || device.index > kMostDevices) {
      throw Error("invalid number of sleeping devices '" + name + "'", "--devices",
                  "use sleep:K with K from 1 to " + std::to_string(kMostDevices));
    }
    for (int i = 0; i < device.index; ++i) {
      devices.push_back(parse_device("sleep:" + std::to_string(i)));
    }
  }
  check_list(devices);
  return devices;
}

std::vector<DeviceSpec> parse_device_names(const std::vector<std::string>& names) {
  if (names.empty()) {
    throw Error("no device is named", "--devices", "name at least one, such as cpu:0");
  }
  std::vector<DeviceSpec> devices;
  for (const std::string& name : names) {
    devices.push_back(parse_device(name));
  }
  check_list(devices);
  return devices;
}

std::string whole_machine_device(const std::vector<DeviceSpec>& devices) {
  std::vector<int> cores;
  for (const DeviceSpec& device : devices) {
    if (device.kind != DeviceSpec::Kind::cpu) {
      return "";
    }
    cores.insert(cores.end(), device.cores.begin(), device.cores.end());
  }
  std::ranges::sort(cores);
  const bool contiguous = !cores.empty() && cores.back() - cores.front() + 1 == static_cast<int>(cores.size());
  if (devices.size() < 2 || !contiguous) {
    return "";
  }
  return "cpu:" + range_text(cores.front(), cores.back());
}

std::string device_class(const DeviceSpec& device) {
  switch (device.kind) {
    case DeviceSpec::Kind::cpu:
      return "cpu/" + std::to_string(device.cores.size());
    case DeviceSpec::Kind::cuda:
      return device.parts > 1 ? "cuda/" + std::to_string(device.parts) : "cuda";
    case DeviceSpec::Kind::sleep:
      break;
  }
  return "sleep";
}

LinkThrottle parse_link(const std::string& text) {
  if (text.empty()) {
    return {};
  }
  const char* remedy = "give bandwidth and latency, such as 12GB/s,10us";
  const std::vector<std::string> parts = split(text, ',');
  const auto bandwidth = parse_quantity(parts[0]);
  std::optional<double> factor;
  if (bandwidth && bandwidth->unit.ends_with("/s")) {
    const std::string unit = bandwidth->unit.substr(0, bandwidth->unit.size() - 2);
    factor = unit.empty() ? std::nullopt : byte_unit(unit);
  }
  if (!factor || parts.size() > 2) {
    throw Error("invalid link '" + text + "'", "--link", remedy);
  }
  LinkThrottle link{.bytes_per_second = bandwidth->value * *factor, .latency_s = 0};
  if (link.bytes_per_second < 1 || link.bytes_per_second > 1e15) {
    throw Error("bandwidth '" + parts[0] + "' is out of range", "--link", "use 1 B/s to 1000 TB/s");
  }
  if (parts.size() == 2) {
    if (const auto latency = parse_quantity(parts[1]); latency && latency->unit.empty()) {
      throw Error("latency '" + parts[1] + "' has no unit", "--link", remedy);
    }
    link.latency_s = parse_seconds(parts[1], "--link");
    if (link.latency_s > 60) {
      throw Error("latency '" + parts[1] + "' is out of range", "--link", "use at most 60 s");
    }
  }
  return link;
}

std::vector<std::int64_t> parse_memory(const std::string& text, const std::vector<DeviceSpec>& devices) {
  std::vector<std::int64_t> caps(devices.size(), 0);
  if (text.empty()) {
    return caps;
  }
  if (text.find('=') == std::string::npos) {
    std::ranges::fill(caps, parse_bytes(text, "--memory"));
    return caps;
  }
  for (const std::string& part : split(text, ',')) {
    const auto equals = part.find('=');
    const std::string name = part.substr(0, equals);
    const auto device = std::ranges::find(devices, name, &DeviceSpec::name);
    if (equals == std::string::npos || device == devices.end()) {
      throw Error("'" + part + "' is not a device of this run", "--memory", "use one size, or DEVICE=SIZE for devices of --devices");
    }
    auto& cap = caps[static_cast<std::size_t>(device - devices.begin())];
    if (cap != 0) {
      throw Error("device '" + name + "' has two caps", "--memory", "give one size for each device");
    }
    cap = parse_bytes(part.substr(equals + 1), "--memory");
  }
  return caps;
}

std::vector<int> available_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof mask, &mask) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(static_cast<std::size_t>(core), &mask)) {
        cores.push_back(core);
      }
    }
  } else {
    // The machine has more cores than the mask holds: assume that all may be used.
    for (unsigned core = 0; core < std::max(1U, std::thread::hardware_concurrency()); ++core) {
      cores.push_back(static_cast<int>(core));
    }
  }
  return cores;
}

}  // namespace mptune
