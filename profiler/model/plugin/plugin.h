#pragma once

#include <cstdint>
#include <string>

#include "profiler/model/layers/model.h"

namespace mptune::profiler {

/// Loads the model of a plug-in (MPTUNE_MODEL), with the weights that its factory draws after torch::manual_seed(seed).
/// The library stays loaded. Throws Error (usage) if it was built with another mptune, LibTorch or C++ standard library (before any of its
/// code runs), and if the loader or the factory fails. The compiler may be another one: g++ or clang++.
[[nodiscard]] Model load_plugin(const std::string& path, std::uint64_t seed);

}  // namespace mptune::profiler
