#include "profiler/base/device_spec.h"

#include <algorithm>

#include "profiler/base/error.h"
#include "profiler/base/text.h"

namespace mptune {
namespace {

constexpr int kMostCores = 4096;
constexpr int kMostParts = 16;

std::optional<DeviceSpec> cpu_device(const std::string& numbers) {
  const auto dash = numbers.find('-');
  const auto first = integer(numbers.substr(0, dash));
  const auto last = dash == std::string::npos ? first : integer(numbers.substr(dash + 1));
  if (!first || !last || *first < 0 || *last < *first || *last >= kMostCores) return std::nullopt;
  DeviceSpec device{.kind = DeviceSpec::Kind::cpu, .name = "", .cores = {}, .index = static_cast<int>(*first)};
  for (int core = static_cast<int>(*first); core <= *last; ++core) device.cores.push_back(core);
  device.name = cpu_name(device.cores.front(), device.cores.back());
  return device;
}

/// Parses what follows "cuda:": "1" or "0/1of2".
std::optional<DeviceSpec> cuda_device(const std::string& rest) {
  const auto slash = rest.find('/');
  const auto index = integer(rest.substr(0, slash));
  if (!index || *index < 0 || *index >= DeviceSpec::kMostDevices) return std::nullopt;
  DeviceSpec device{.kind = DeviceSpec::Kind::cuda, .name = gpu_name(*index), .cores = {}, .index = static_cast<int>(*index)};
  if (slash == std::string::npos) return device;
  const std::string division = rest.substr(slash + 1);
  const auto of = division.find("of");
  const auto part = integer(division.substr(0, of));
  const auto parts = of == std::string::npos ? std::nullopt : integer(division.substr(of + 2));
  if (!part || !parts || *parts < 2 || *parts > kMostParts || *part < 1 || *part > *parts) return std::nullopt;
  device.part = static_cast<int>(*part) - 1;
  device.parts = static_cast<int>(*parts);
  device.name.append("/").append(std::to_string(*part)).append("of").append(std::to_string(*parts));
  return device;
}

std::optional<DeviceSpec> sleeping_device(const std::string& number) {
  const auto index = integer(number);
  if (!index || *index < 0 || *index >= kMostCores) return std::nullopt;
  return DeviceSpec{
      .kind = DeviceSpec::Kind::sleep, .name = "sleep:" + std::to_string(*index), .cores = {}, .index = static_cast<int>(*index)};
}

std::optional<DeviceSpec::Kind> kind_named(const std::string& text) {
  if (text == "cpu") return DeviceSpec::Kind::cpu;
  if (text == "cuda") return DeviceSpec::Kind::cuda;
  return text == "sleep" ? std::optional(DeviceSpec::Kind::sleep) : std::nullopt;
}

std::string fault_of_cores(const std::string& numbers) {
  const auto dash = numbers.find('-');
  const auto first = integer(numbers.substr(0, dash));
  const auto last = dash == std::string::npos ? first : integer(numbers.substr(dash + 1));
  if (!first || !last) return "";
  if (*last >= kMostCores) return "cores are numbered up to " + std::to_string(kMostCores - 1);
  return *first >= 0 && *last < *first ? "its last core comes before its first" : "";
}

std::string fault_of_part(const std::string& rest) {
  const auto slash = rest.find('/');
  const auto index = integer(rest.substr(0, slash));
  if (index && *index >= DeviceSpec::kMostDevices) return "GPUs are numbered up to " + std::to_string(DeviceSpec::kMostDevices - 1);
  const auto of = rest.find("of");
  if (!index || slash == std::string::npos || of == std::string::npos || of < slash) return "";
  const auto part = integer(rest.substr(slash + 1, of - slash - 1));
  const auto parts = integer(rest.substr(of + 2));
  if (!part || !parts) return "";
  if (*parts < 2 || *parts > kMostParts) return "a GPU has 2 to " + std::to_string(kMostParts) + " parts";
  return "its parts are numbered from 1 to " + std::to_string(*parts);
}

// Says what is wrong with a name that is not a device's; "" where that is plain to see.
std::string fault_of(const std::string& name) {
  const auto colon = name.find(':');
  const std::string kind = name.substr(0, colon), rest = colon == std::string::npos ? "" : name.substr(colon + 1);
  if (colon != std::string::npos && !kind_named(kind)) return "there are cpu, cuda and sleep devices";
  if (kind == "cpu") return fault_of_cores(rest);
  if (kind == "cuda") return fault_of_part(rest);
  const auto number = integer(rest);
  return kind == "sleep" && number && *number >= kMostCores ? "there are at most " + std::to_string(DeviceSpec::kMostDevices) : "";
}

}  // namespace

DeviceSpec parse_device(const std::string& name) {
  if (auto device = find_device(name)) return *std::move(device);
  const std::string fault = fault_of(without_rank(name));
  throw Error("invalid device '" + name + "'" + (fault.empty() ? "" : ": " + fault), "--devices",
              "use cpu:0, cpu:0-3, cuda:1, cuda:0/1of2, sleep:4 or a pool, cpu:0-3/auto, separated by commas; 1@cuda:0 is one of rank 1");
}

namespace {

std::optional<DeviceSpec> find_local_device(const std::string& name) {
  const auto kind = device_kind(name);
  if (!kind) return std::nullopt;
  const std::string rest = name.substr(name.find(':') + 1);
  switch (*kind) {
    case DeviceSpec::Kind::cpu:
      return cpu_device(rest);
    case DeviceSpec::Kind::cuda:
      return cuda_device(rest);
    case DeviceSpec::Kind::sleep:
      break;
  }
  return sleeping_device(rest);
}

}  // namespace

DeviceSpec device_of_profile(const std::string& name) {
  if (auto device = find_device(name)) return *std::move(device);
  const auto number = integer(name.substr(name.rfind(':') + 1));
  const bool counted = number && *number >= 0 && *number < kMostCores;
  return {.kind = DeviceSpec::Kind::sleep, .name = name, .cores = {}, .index = counted ? static_cast<int>(*number) : 0};
}

std::optional<DeviceSpec> find_device(const std::string& name) {
  if (!names_rank(name)) return find_local_device(name);
  if (names_rank(without_rank(name))) return std::nullopt;
  const auto rank = integer(name.substr(0, name.find('@')));
  auto device = find_local_device(without_rank(name));
  if (!device || !rank || *rank < 0 || *rank >= DeviceSpec::kMostRanks) return std::nullopt;
  device->rank = static_cast<int>(*rank);
  device->name = std::to_string(*rank) + "@" + device->name;
  return device;
}

bool names_rank(const std::string& name) {
  return name.find('@') != std::string::npos;
}

std::string without_rank(const std::string& name) {
  return name.substr(names_rank(name) ? name.find('@') + 1 : 0);
}

std::optional<DeviceSpec::Kind> device_kind(const std::string& name) {
  const std::string local = without_rank(name);
  const auto colon = local.find(':');
  return colon == std::string::npos ? std::nullopt : kind_named(local.substr(0, colon));
}

std::optional<DeviceSpec::Kind> class_kind(const std::string& device_class) {
  return kind_named(device_class.substr(0, device_class.find_first_of("/ ")));
}

std::string gpu_name(std::int64_t index) {
  return "cuda:" + std::to_string(index);
}

std::string whole_device(const std::string& name) {
  return name.substr(0, name.find('/'));
}

std::string cpu_name(int first, int last) {
  std::string name = "cpu:" + std::to_string(first);
  if (last > first) name.append("-").append(std::to_string(last));
  return name;
}

std::string whole_machine_device(const std::vector<DeviceSpec>& devices) {
  std::vector<int> cores;
  for (const DeviceSpec& device : devices) {
    if (device.kind != DeviceSpec::Kind::cpu || names_rank(device.name)) return "";
    cores.insert(cores.end(), device.cores.begin(), device.cores.end());
  }
  std::ranges::sort(cores);
  const bool contiguous = !cores.empty() && cores.back() - cores.front() + 1 == static_cast<int>(cores.size());
  if (devices.size() < 2 || !contiguous) return "";
  return cpu_name(cores.front(), cores.back());
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

}  // namespace mptune
