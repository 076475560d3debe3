#include "tuner/runtime/step/batch_parts.h"

#include <algorithm>

namespace mptune::tuner {

BatchParts::BatchParts(const Plan& plan, int samples) : sizes_(plan.microbatch_sizes), samples_(samples) {
  if (samples < plan.global_batch_size()) {
    const int largest = std::ranges::max(plan.microbatch_sizes);
    sizes_ = split_evenly(samples, (samples + largest - 1) / largest);
    sizes_.resize(plan.microbatch_sizes.size(), 0);
  }
  std::int64_t first = 0;
  for (const int size : sizes_) {
    firsts_.push_back(first);
    first += size;
  }
}

}  // namespace mptune::tuner
