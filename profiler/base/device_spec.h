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

/// Parses one name: `cpu:0`, `cpu:0-3`, `cuda:1`, `cuda:0/1of2` or `sleep:0`, each also as `RANK@NAME` for the device of another process:
/// `1@cuda:0`. Throws Error for anything else. Does not query the machine.
[[nodiscard]] DeviceSpec parse_device(const std::string& name);
/// Does the same as parse_device(), but returns nullopt for anything else.
[[nodiscard]] std::optional<DeviceSpec> find_device(const std::string& name);

/// Returns the device of a profile or a plan that has this name. One on paper, as "h100_sxm:0", is taken for a sleeping device of this name
/// and number, 0 where the name ends with none.
[[nodiscard]] DeviceSpec device_of_profile(const std::string& name);

/// Returns the kind of a device of a plan, a profile or a trace, whatever its number; nullopt for the devices of other programs.
[[nodiscard]] std::optional<DeviceSpec::Kind> device_kind(const std::string& name);
/// Returns the kind of the devices of a class: a GPU for "cuda/2" and "cuda of rank 1".
[[nodiscard]] std::optional<DeviceSpec::Kind> class_kind(const std::string& device_class);

/// Returns a name without its rank: "cuda:0" for "1@cuda:0". Other names are returned as they are.
[[nodiscard]] std::string without_rank(const std::string& name);
/// True if a name says which process has the device.
[[nodiscard]] bool names_rank(const std::string& name);

/// Returns "cuda:1" for index 1.
[[nodiscard]] std::string gpu_name(std::int64_t index);
/// Returns the GPU that a device is a part of: "cuda:0" for "cuda:0/1of2". Other names are returned as they are.
[[nodiscard]] std::string whole_device(const std::string& name);
/// Returns the device of cores `first` to `last`: "cpu:0-3", "cpu:2".
[[nodiscard]] std::string cpu_name(int first, int last);

/// Returns the device of all cores of CPU devices: "cpu:0-1"; "" if there is only one device, if the cores are not contiguous, or if not
/// all are CPU devices of one process.
[[nodiscard]] std::string whole_machine_device(const std::vector<DeviceSpec>& devices);

/// Returns the name of the class of devices that share layer costs: "cpu/1", "cpu/4", "cuda", "cuda/2" (half a GPU), "sleep".
[[nodiscard]] std::string device_class(const DeviceSpec& device);

}  // namespace mptune
