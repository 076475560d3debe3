#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mptune {

/// A device as the user names it.
struct DeviceSpec {
  enum class Kind { cpu, cuda, sleep };
  static constexpr int kMostDevices = 256;
  static constexpr int kMostRanks = 4096;
  Kind kind = Kind::cpu;
  std::string name;        ///< "cpu:0-3", "cuda:1", "cuda:0/1of2", "sleep:0", "1@cuda:0"
  std::vector<int> cores;  ///< cpu: ascending core numbers
  int index = 0;           ///< cuda ordinal, sleep number
  int part = 0;            ///< cuda: which of the parts, from 0
  int parts = 1;           ///< cuda: equal parts that the GPU's multiprocessors are divided into; 1: the whole GPU
  int rank = 0;            ///< the process that has it
  bool operator==(const DeviceSpec&) const = default;
};

/// Parses one name: `cpu:0`, `cpu:0-3`, `cuda:1`, `cuda:0/1of2`, `sleep:0`, each also as `RANK@NAME` for the device of another process:
/// `1@cuda:0`. Throws Error for anything else. Does not ask the machine.
[[nodiscard]] DeviceSpec parse_device(const std::string& name);
/// The same; nothing for anything else.
[[nodiscard]] std::optional<DeviceSpec> find_device(const std::string& name);

/// The kind of a device of a plan, a profile or a trace, of any number; nothing for the devices of other programs.
[[nodiscard]] std::optional<DeviceSpec::Kind> device_kind(const std::string& name);
/// The kind of the devices of a class: of "cuda/2" and "cuda of rank 1", a GPU.
[[nodiscard]] std::optional<DeviceSpec::Kind> class_kind(const std::string& device_class);

/// A name without its rank: "cuda:0" for "1@cuda:0". Other names are returned as they are.
[[nodiscard]] std::string without_rank(const std::string& name);
/// True if a name says which process has the device.
[[nodiscard]] bool names_rank(const std::string& name);

/// "cuda:1".
[[nodiscard]] std::string gpu_name(std::int64_t index);
/// The GPU that this is a part of: "cuda:0" for "cuda:0/1of2". Other names are returned as they are.
[[nodiscard]] std::string whole_device(const std::string& name);
/// The device of cores `first` to `last`: "cpu:0-3", "cpu:2".
[[nodiscard]] std::string cpu_name(int first, int last);

/// The device of all cores of CPU devices: "cpu:0-1"; "" where they are one device, not contiguous, not all CPU devices,
/// or those of several processes.
[[nodiscard]] std::string whole_machine_device(const std::vector<DeviceSpec>& devices);

/// Name of the class of devices that share layer costs: "cpu/1", "cpu/4", "cuda", "cuda/2" (half a GPU), "sleep".
[[nodiscard]] std::string device_class(const DeviceSpec& device);

}  // namespace mptune
