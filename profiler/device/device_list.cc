#include "mptune/profiler/device/device_list.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "mptune/profiler/base/error.h"
#include "mptune/profiler/base/text.h"
#include "mptune/profiler/device/gpu_driver.h"

namespace mptune {
namespace {

constexpr int kMostAutoDevices = 8;

struct Quantity {
  double value = 0;
  std::string unit;
};

/// A non-negative decimal number and what follows it; nothing where there is no such number.
std::optional<Quantity> parse_quantity(const std::string& text) {
  Quantity quantity;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), quantity.value);
  if (error != std::errc{} || !std::isfinite(quantity.value) || quantity.value < 0 || text.front() == '-') {
    return std::nullopt;
  }
  quantity.unit.assign(end, text.data() + text.size());
  if (!quantity.unit.empty() && quantity.unit.front() == ' ') {
    quantity.unit.erase(0, 1);
  }
  return quantity;
}

std::optional<double> byte_unit(const std::string& unit) {
  static constexpr std::pair<const char*, double> kUnits[] = {{"", 1},         {"B", 1},       {"kB", 1e3},     {"MB", 1e6},
                                                              {"GB", 1e9},     {"TB", 1e12},   {"KiB", 0x1p10}, {"MiB", 0x1p20},
                                                              {"GiB", 0x1p30}, {"TiB", 0x1p40}};
  for (const auto& [name, factor] : kUnits) {
    if (unit == name) {
      return factor;
    }
  }
  return std::nullopt;
}

/// Units below a second as divisors, so that "10us" is exactly the double 10e-6.
std::optional<double> in_seconds(const Quantity& quantity) {
  static constexpr std::pair<const char*, double> kMultiples[] = {{"", 1}, {"s", 1}, {"min", 60}, {"h", 3600}};
  static constexpr std::pair<const char*, double> kFractions[] = {{"ms", 1e3}, {"us", 1e6}, {"ns", 1e9}};
  for (const auto& [name, factor] : kMultiples) {
    if (quantity.unit == name) {
      return quantity.value * factor;
    }
  }
  for (const auto& [name, divisor] : kFractions) {
    if (quantity.unit == name) {
      return quantity.value / divisor;
    }
  }
  return std::nullopt;
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
    text.append(text.empty() ? "" : ",").append(cpu_name(cores[i], cores[last]).substr(4));
    i = last + 1;
  }
  return text;
}

/// Checks a whole list: no core twice, every core there, sleep devices among themselves.
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
        throw Error(gpu_name(device.index) + " is divided in two ways", "--devices",
                    "use the whole of a GPU, or parts of one size: cuda:0/1of2,cuda:0/2of2");
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
    devices.push_back(parse_device(gpu_name(gpu)));
  }
  if (!devices.empty()) {
    return devices;
  }
  for (const int core : available_cores()) {
    if (static_cast<int>(devices.size()) == kMostAutoDevices) {
      break;
    }
    devices.push_back(parse_device(cpu_name(core, core)));
  }
  return devices;
}

}  // namespace

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
    if (device.index < 1 || device.index > DeviceSpec::kMostDevices) {
      throw Error("invalid number of sleeping devices '" + name + "'", "--devices",
                  "use sleep:K with K from 1 to " + std::to_string(DeviceSpec::kMostDevices));
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

std::int64_t parse_bytes(const std::string& text, const std::string& option) {
  const auto quantity = parse_quantity(text);
  const auto factor = quantity ? byte_unit(quantity->unit) : std::nullopt;
  if (!factor) {
    throw Error("invalid size '" + text + "'", option, "use a number with B, kB, MB, GB, KiB, MiB or GiB, such as 2GiB");
  }
  const double bytes = quantity->value * *factor;
  if (bytes < 1 || bytes > 0x1p60) {
    throw Error("size '" + text + "' is out of range", option, "use 1 B to 1 EiB");
  }
  return std::llround(bytes);
}

double parse_seconds(const std::string& text, const std::string& option) {
  const auto quantity = parse_quantity(text);
  const auto seconds = quantity ? in_seconds(*quantity) : std::nullopt;
  if (!seconds || *seconds > 1e9) {
    throw Error("invalid duration '" + text + "'", option, "use a number with ns, us, ms, s, min or h, such as 150s");
  }
  return *seconds;
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
      throw Error("'" + part + "' names no device of this run", "--memory", "use one size, or DEVICE=SIZE for devices of --devices");
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
    // More cores than the mask holds: the numbers alone.
    for (unsigned core = 0; core < std::max(1U, std::thread::hardware_concurrency()); ++core) {
      cores.push_back(static_cast<int>(core));
    }
  }
  return cores;
}

}  // namespace mptune
