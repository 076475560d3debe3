#pragma once

#include <string>

#include <torch/types.h>

namespace mptune::profiler {

/// Maps an array that NumPy's save() wrote into memory: pages are read when they are needed. The file must not change meanwhile, and nobody
/// may write to the tensor. Format: NumPy's enhancement proposal 1, versions 1 to 3; little-endian numbers, C order.
/// Throws Error: missing, truncated, another format, Fortran order, element types that tensors lack.
[[nodiscard]] at::Tensor map_npy_file(const std::string& path);

}  // namespace mptune::profiler
