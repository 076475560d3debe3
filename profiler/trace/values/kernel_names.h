#pragma once

#include <string_view>

namespace mptune::profiler {

/// True for kernels of NCCL: collectives, sends and receives, whose names begin with "nccl", and MSCCL's with "mscclKernel".
[[nodiscard]] constexpr bool is_nccl_kernel(std::string_view name) {
  return name.starts_with("nccl") || name.starts_with("mscclKernel");
}

/// Does the same for a name as the compiler mangled it: "_Z22ncclDevKernel_SendRecv...".
[[nodiscard]] constexpr bool is_mangled_nccl_kernel(std::string_view name) {
  if (!name.starts_with("_Z")) return is_nccl_kernel(name);
  const auto plain = name.find_first_not_of("0123456789", 2);
  return plain != std::string_view::npos && is_nccl_kernel(name.substr(plain));
}

}  // namespace mptune::profiler
