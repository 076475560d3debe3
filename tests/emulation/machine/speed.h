#pragma once

/// How long work takes by the settings. Without them it takes no modelled time: it lasts as long as its computation.
///
///     kernel       launch + max(flops / rate, bytes / bandwidth) x SMs of the GPU / SMs of the part / speed of the GPU
///     copy         latency + bytes / rate of the link: host link, or the link between the two GPUs
///     within, fill launch + bytes / bandwidth / speed of the GPU; a copy within a GPU reads and writes, so twice its bytes
///
/// Not modelled: kernels too small for all multiprocessors, kernels that share them, caches.

#include <optional>

#include "tests/emulation/machine/occupation.h"
#include "tests/emulation/machine/stream.h"

namespace emulation {

/// Of EMULATED_SPEEDS.
[[nodiscard]] double speed_of(int gpu);

/// None: as long as it computes.
[[nodiscard]] std::optional<Nanoseconds> modelled_duration(const Stream& stream, const Task& task);

/// What the task has for itself while it runs.
[[nodiscard]] Units units_of(const Stream& stream, const Task& task);

}  // namespace emulation
