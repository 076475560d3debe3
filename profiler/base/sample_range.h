#pragma once

#include <algorithm>

namespace mptune {

/// How many samples a micro-batch may have.
struct SampleRange {
  int least = 1;
  int most = 0;  ///< 0: any number
  [[nodiscard]] constexpr bool takes(int samples) const { return samples >= least && (most == 0 || samples <= most); }
  bool operator==(const SampleRange&) const = default;
};

/// Returns the sizes that both ranges contain; there are none if `most` is below `least`.
[[nodiscard]] constexpr SampleRange common_range(const SampleRange& a, const SampleRange& b) {
  const int most = a.most == 0 ? b.most : b.most == 0 ? a.most : std::min(a.most, b.most);
  return {std::max(a.least, b.least), most};
}

}  // namespace mptune
