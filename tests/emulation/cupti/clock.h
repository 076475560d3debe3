#pragma once

/// CUPTI's clock: that of the GPUs, or the function that the client registered.

#include <cstdint>

namespace emulation::cupti {

using TimestampFunction = std::uint64_t (*)();

/// From now on times are what `function` returns. GPUs' times are converted when their records are handed over.
void use_timestamps_of(TimestampFunction function);

/// Now. The host's times are taken with it at once.
[[nodiscard]] std::uint64_t now();

/// Converts times of the GPUs' clock to CUPTI's, on the line through two moments: the registration of the client's function, and the making
/// of this object, which must be later than the times.
class GpuTimes {
 public:
  GpuTimes();
  /// False where both clocks are the same.
  [[nodiscard]] bool differ() const { return differ_; }
  [[nodiscard]] std::uint64_t converted(std::uint64_t gpu_time) const;

 private:
  bool differ_ = false;
  std::uint64_t gpu_ = 0;
  std::uint64_t client_ = 0;
  double rate_ = 1;  ///< of the client's clock by the GPUs'
};

}  // namespace emulation::cupti
