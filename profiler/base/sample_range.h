#pragma once

#include <algorithm>

namespace mptune {

/// How many samples a micro-batch may have.
struct SampleRange {
  int least = 1;
  int most = 0;  ///< 0: any number
  bool operator==(const SampleRange&) const = default;
};

/// What both take.
[[nodiscard]] constexpr SampleRange common_range(const SampleRange& a, const SampleRange& b) {
  const int most = a.most == 0 ? b.most : b.most == 0 ? a.most : std::min(a.most, b.most);
  return {std::max(a.least, b.least), most};
}

}  // namespace mptune
