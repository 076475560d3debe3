#include "tuner/runtime/training/epochs.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>

namespace mptune {

Epochs::Epochs(std::int64_t samples, std::int64_t batch, std::uint64_t seed, bool drop_last)
    : samples_(samples), batch_(batch), steps_(drop_last ? samples / batch : (samples + batch - 1) / batch), seed_(seed) {}

at::Tensor Epochs::indices_of(std::int64_t step) const {
  if (samples_ == batch_) return at::arange(samples_, at::kLong);
  const std::int64_t first = step % steps_ * batch_;
  const std::int64_t epoch = epoch_of(step);
  if (ordered_ != epoch) order_ = shuffled(samples_, seed_, 1 + static_cast<std::uint64_t>(epoch));
  ordered_ = epoch;
  return order_.narrow(0, first, std::min(batch_, samples_ - first));
}

at::Tensor shuffled(std::int64_t samples, std::uint64_t seed, std::uint64_t stream) {
  constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15;  // streams of neighbouring seeds differ
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed * kGolden + stream);
  return at::randperm(samples, generator, at::TensorOptions(at::kLong));
}

}  // namespace mptune
