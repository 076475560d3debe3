#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mptune {

/// What a data sheet says of a GPU and of the hosts that have it. Rates are those of dense numbers, without sparsity.
struct Hardware {
  std::string name;                    ///< "h100_sxm"
  std::string title;                   ///< "NVIDIA H100 SXM"
  double float32_flops = 0;            ///< operations per second; a multiplication and an addition are two
  double convolution_flops = 0;        ///< of float32 convolutions, which PyTorch computes in TF32 where a GPU has it
  double half_flops = 0;               ///< of bfloat16 and float16
  double memory_bytes_per_second = 0;  ///< of its own memory
  std::int64_t memory_bytes = 0;
  int devices = 1;                   ///< in a host
  double link_bytes_per_second = 0;  ///< between two devices of a host, one direction
  double link_latency_s = 0;
};

/// What kernels reach of the rates, one set for all GPUs: the least mean error over 152,250 published times of bfloat16 products on nine
/// kinds of GPUs (docs/estimates.md).
inline constexpr double kReachedFlops = 0.70;
inline constexpr double kReachedBandwidth = 0.75;
inline constexpr double kKernelSeconds = 2.7e-6;  ///< of every kernel, beside its operations or bytes

/// Returns what is known by this name; nullopt: nothing.
[[nodiscard]] std::optional<Hardware> find_hardware(const std::string& name);
/// Returns all names, in the order of the table.
[[nodiscard]] std::vector<std::string> hardware_names();

}  // namespace mptune
