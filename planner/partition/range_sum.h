#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "planner/partition/prices.h"
#include "profiler/base/index.h"

namespace mptune::planner {

/// What some slots of one stage take together, each slot times its count: a sum for every range of layers that the stage may have, with the
/// copies over the cut after it. `T` is std::int64_t or double, in nanoseconds.
template <typename T>
class RangeSum {
 public:
  /// Starts with no slots.
  explicit RangeSum(int layers) : before_(as_index(layers) + 1, T{}), upto_(before_) {}

  void add(const Prices& prices, int slot, T count) {
    if (const std::vector<std::int64_t>& by_cut = prices.by_cut(slot); !by_cut.empty()) {
      for (std::size_t cut = 0; cut < by_cut.size(); ++cut) upto_[cut] += count * static_cast<T>(by_cut[cut]);
      return;
    }
    const T fixed = count * static_cast<T>(prices.fixed_ns(slot));
    for (T& ns : upto_) ns += fixed;
    if (const OpenRanges* open = prices.open(slot)) open_.emplace_back(open, count);
    const LayerSums* layers = prices.by_layers(slot);
    for (std::size_t layer = 0; layers != nullptr && layer < upto_.size(); ++layer) {
      const T ns = count * static_cast<T>(layers->before(static_cast<int>(layer)));
      before_[layer] += ns;
      upto_[layer] += ns;
    }
  }

  [[nodiscard]] T at(int first, int last) const {
    const T ns = upto(last) - before(first);
    return open_.empty() ? ns : ns + of_open_ranges(first, last);
  }

  /// at(first, last) is upto(last) - before(first), unless some of the slots have open ranges.
  [[nodiscard]] T upto(int last) const { return upto_[as_index(last)]; }
  [[nodiscard]] T before(int first) const { return before_[as_index(first)]; }
  [[nodiscard]] bool has_open_ranges() const { return !open_.empty(); }

 private:
  [[nodiscard]] T of_open_ranges(int first, int last) const {
    T ns{};
    for (const auto& [open, count] : open_) ns += count * static_cast<T>(open->at(first, last));
    return ns;
  }

  std::vector<T> before_;
  std::vector<T> upto_;
  std::vector<std::pair<const OpenRanges*, T>> open_;
};

}  // namespace mptune::planner
