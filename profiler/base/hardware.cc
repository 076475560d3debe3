#include "profiler/base/hardware.h"

#include <algorithm>
#include <array>

namespace mptune {

namespace {

constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;
constexpr double kPeerLatency = 10e-6;

struct DataSheet {
  const char* name;
  const char* title;
  double float32_tflops;
  double convolution_tflops;
  double half_tflops;
  double memory_gb_per_s;
  int memory_gib;
  int devices;
  double link_gb_per_s;  // of NVLink or Infinity Fabric, else of PCI Express
};

// From the makers' data sheets.
constexpr std::array kSheets{
    DataSheet{"v100_sxm", "NVIDIA V100 SXM2", 15.7, 15.7, 125, 900, 32, 8, 150},
    DataSheet{"a30", "NVIDIA A30", 10.3, 82, 165, 933, 24, 4, 32},
    DataSheet{"a100_pcie", "NVIDIA A100 PCIe 80 GB", 19.5, 156, 312, 1935, 80, 8, 32},
    DataSheet{"a100_sxm", "NVIDIA A100 SXM 80 GB", 19.5, 156, 312, 2039, 80, 8, 300},
    DataSheet{"l4", "NVIDIA L4", 30.3, 60, 121, 300, 24, 8, 32},
    DataSheet{"l40s", "NVIDIA L40S", 91.6, 183, 362, 864, 48, 8, 32},
    DataSheet{"h100_pcie", "NVIDIA H100 PCIe", 51, 378, 756, 2000, 80, 8, 64},
    DataSheet{"h100_sxm", "NVIDIA H100 SXM", 67, 494, 989, 3350, 80, 8, 450},
    DataSheet{"h200_sxm", "NVIDIA H200 SXM", 67, 494, 989, 4800, 141, 8, 450},
    DataSheet{"b200_sxm", "NVIDIA B200 SXM", 75, 1100, 2250, 7700, 180, 8, 900},
    DataSheet{"mi300x", "AMD MI300X", 163.4, 653.7, 1307, 5300, 192, 8, 64},
};

Hardware of(const DataSheet& sheet) {
  return {.name = sheet.name,
          .title = sheet.title,
          .float32_flops = sheet.float32_tflops * kTera,
          .convolution_flops = sheet.convolution_tflops * kTera,
          .half_flops = sheet.half_tflops * kTera,
          .memory_bytes_per_second = sheet.memory_gb_per_s * kGiga,
          .memory_bytes = std::int64_t{sheet.memory_gib} << 30,
          .devices = sheet.devices,
          .link_bytes_per_second = sheet.link_gb_per_s * kGiga,
          .link_latency_s = kPeerLatency};
}

}  // namespace

std::optional<Hardware> find_hardware(const std::string& name) {
  const auto found = std::ranges::find(kSheets, name, [](const DataSheet& sheet) { return std::string(sheet.name); });
  if (found == kSheets.end()) return std::nullopt;
  return of(*found);
}

std::vector<std::string> hardware_names() {
  std::vector<std::string> names;
  for (const DataSheet& sheet : kSheets) names.emplace_back(sheet.name);
  return names;
}

}  // namespace mptune
