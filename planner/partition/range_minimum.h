#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

#include "profiler/base/index.h"

namespace mptune::planner {

/// The least values of all ranges of a list, by a sparse table. Making it takes O(n log n), a question O(1), a search O(log n) (Bender &
/// Farach-Colton, "The LCA problem revisited", LATIN 2000). Ranges contain both of their ends.
template <typename T>
class RangeMinimum {
 public:
  /// Takes the values of the places from `first` on, and forgets all earlier values.
  void assign(int first, std::vector<T> values) {
    first_ = first;
    values_ = std::move(values);
    const std::size_t count = values_.size();
    const auto levels = static_cast<std::size_t>(std::bit_width(count));
    least_.assign(levels * count, 0);
    for (std::size_t i = 0; i < count; ++i) least_[i] = first + static_cast<int>(i);
    for (std::size_t level = 1; level < levels; ++level) {
      const std::size_t half = std::size_t{1} << (level - 1);
      for (std::size_t i = 0; i + 2 * half <= count; ++i)
        least_[level * count + i] = lesser(least_[(level - 1) * count + i], least_[(level - 1) * count + i + half]);
    }
  }

  [[nodiscard]] const T& value(int place) const { return values_[as_index(place - first_)]; }

  /// Returns the place of the least value in [from, to], the first of equal ones. Requires: from <= to.
  [[nodiscard]] int least(int from, int to) const {
    const auto level = static_cast<std::size_t>(std::bit_width(as_index(to - from + 1))) - 1;
    return lesser(block(level, from), block(level, to + 1 - (1 << level)));
  }

  /// Returns the first place in [from, to] whose value is at most `limit`, -1 if there is none.
  [[nodiscard]] int first_at_most(int from, int to, const T& limit) const {
    for (std::size_t level = levels(); level-- > 0;)
      if (from + (1 << level) <= to + 1 && value(block(level, from)) > limit) from += 1 << level;
    return from <= to && value(from) <= limit ? from : -1;
  }

  /// Returns the last place in [from, to] whose value is at most `limit`, -1 if there is none.
  [[nodiscard]] int last_at_most(int from, int to, const T& limit) const {
    for (std::size_t level = levels(); level-- > 0;)
      if (to - (1 << level) >= from - 1 && value(block(level, to + 1 - (1 << level))) > limit) to -= 1 << level;
    return from <= to && value(to) <= limit ? to : -1;
  }

 private:
  [[nodiscard]] std::size_t levels() const { return values_.empty() ? 0 : least_.size() / values_.size(); }
  [[nodiscard]] int block(std::size_t level, int from) const { return least_[level * values_.size() + as_index(from - first_)]; }
  [[nodiscard]] int lesser(int a, int b) const { return value(b) < value(a) ? b : a; }

  int first_ = 0;
  std::vector<T> values_;
  std::vector<int> least_;  // [level][i]: place of the least of 2^level values from the i-th on
};

/// The inverse of RangeMinimum: ranges of a list are lowered, then each place is asked for the least value that it got. Lowering a range
/// takes O(1), the values O(n log n).
template <typename T>
class LoweredRanges {
 public:
  /// Starts with `highest` at each of `count` places from `first` on.
  LoweredRanges(int first, std::size_t count, T highest)
      : first_(first), count_(count), blocks_(static_cast<std::size_t>(std::bit_width(count)) * count, highest) {}

  /// Lowers the places [from, to] to at most `value`. Requires: from <= to.
  void lower(int from, int to, const T& value) {
    const auto level = static_cast<std::size_t>(std::bit_width(as_index(to - from + 1))) - 1;
    put(level, as_index(from - first_), value);
    put(level, as_index(to - first_ + 1 - (1 << level)), value);
  }

  /// Returns the least values of the places, in order. The object can't be used afterwards.
  [[nodiscard]] std::vector<T> values() && {
    for (std::size_t level = blocks_.size() / std::max<std::size_t>(1, count_); level-- > 1;) {
      const std::size_t half = std::size_t{1} << (level - 1);
      for (std::size_t i = 0; i + 2 * half <= count_; ++i) {
        put(level - 1, i, blocks_[level * count_ + i]);
        put(level - 1, i + half, blocks_[level * count_ + i]);
      }
    }
    blocks_.resize(count_);
    return std::move(blocks_);
  }

 private:
  void put(std::size_t level, std::size_t from, const T& value) {
    T& known = blocks_[level * count_ + from];
    known = std::min(known, value);
  }

  int first_;
  std::size_t count_;
  std::vector<T> blocks_;  // [level][i]: least value of 2^level places from the i-th on
};

}  // namespace mptune::planner
