#pragma once

#include <string_view>

namespace mptune::profiler {

/// True for kernels of NCCL: collectives, sends and receives, whose names begin with "nccl".
[[nodiscard]] constexpr bool is_nccl_kernel(std::string_view name) {
  return name.starts_with("nccl");
}

}  // namespace mptune::profiler
