#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#include "profiler/base/index.h"
#include "tests/benchmarks/baselines/chain_costs.h"

namespace mptune::testing {

/// Blocks of a sequence, between which the algorithm below moves elements.
class Blocks {
 public:
  Blocks(const std::vector<std::int64_t>& sizes, int blocks) : sums_(sums_before(sizes)) {
    const std::size_t each = sizes.size() / as_index(blocks);
    for (std::size_t block = 0; block < as_index(blocks); ++block) starts_.push_back(block * each);
    starts_.push_back(sizes.size());
  }

  [[nodiscard]] int count() const { return static_cast<int>(starts_.size()) - 1; }
  [[nodiscard]] std::int64_t size(int block) const { return sums_[start(block + 1)] - sums_[start(block)]; }
  [[nodiscard]] std::size_t start(int block) const { return starts_[as_index(block)]; }
  /// The last one among equals.
  [[nodiscard]] int largest() const {
    int found = 0;
    for (int block = 1; block < count(); ++block)
      if (size(block) >= size(found)) found = block;
    return found;
  }
  /// The closest to `block` among equals.
  [[nodiscard]] int smallest(int block) const {
    const auto rank = [&](int other) { return std::pair(size(other), std::abs(other - block)); };
    int found = 0;
    for (int other = 1; other < count(); ++other)
      if (rank(other) < rank(found)) found = other;
    return found;
  }
  /// Moves one element to `block` from its neighbour on the side of `from`, and returns that neighbour.
  int move_towards(int block, int from) {
    if (from < block) {
      --starts_[as_index(block)];
      return block - 1;
    }
    ++starts_[as_index(block) + 1];
    return block + 1;
  }

 private:
  std::vector<std::int64_t> sums_;
  std::vector<std::size_t> starts_;  // of every block, and the end
};

/// Cuts by torchgpipe's balance_by_time: block partition (Barany and Grinberg, arXiv 1308.2452) of the times minus the shortest one. It
/// starts with floor(layers / stages) layers per stage and the rest on the last. The smallest block takes elements from the side of the
/// largest one until they differ by at most the range of the times. Because the shortest time is subtracted, many short layers weigh
/// nothing, and with equal times nothing moves. An empty stage, which torchgpipe leaves to the user, gets one layer.
[[nodiscard]] inline std::vector<int> block_partition(std::vector<std::int64_t> times, int stages) {
  const auto [shortest, longest] = std::minmax_element(times.begin(), times.end());
  const std::int64_t least = *shortest;
  const std::int64_t range = *longest - least;
  for (std::int64_t& time : times) time -= least;
  Blocks blocks(times, stages);
  int largest = blocks.largest();
  for (int smallest = blocks.smallest(largest); blocks.size(largest) - blocks.size(smallest) > range; smallest = blocks.smallest(largest))
    if (blocks.move_towards(smallest, largest) == largest) largest = blocks.largest();
  const int layers = static_cast<int>(times.size());
  std::vector<int> cuts;
  for (int stage = 1; stage < stages; ++stage)
    cuts.push_back(std::max(static_cast<int>(blocks.start(stage)), cuts.empty() ? 1 : cuts.back() + 1));
  for (int stage = stages - 1, most = layers - 1; stage > 0; --stage, --most) {
    int& cut = cuts[as_index(stage) - 1];
    cut = most = std::min(cut, most);
  }
  return cuts;
}

}  // namespace mptune::testing
