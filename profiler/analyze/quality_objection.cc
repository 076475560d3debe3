#include "mptune/profiler/analyze/quality_objection.h"

#include <array>
#include <cstdio>

namespace mptune {

std::string quality_objection(const Trace& trace) {
  const TraceQuality& quality = trace.quality;
  struct Loss {
    std::int64_t count;
    const char* what;
  };
  const std::array losses{Loss{quality.dropped + quality.zero_stamped, "were dropped or have no times"},
                          Loss{quality.unmatched, "have no counterpart: a launch, a send or a receive"},
                          Loss{quality.out_of_window, "lie outside of the steps"}};
  const double whole = static_cast<double>(trace.events.size()) + static_cast<double>(losses[0].count);
  for (const Loss& loss : losses) {
    if (loss.count <= 0 || static_cast<double>(loss.count) <= kMostLost * whole) continue;
    std::array<char, 48> share{};
    std::snprintf(share.data(), share.size(), "%.1f %% of all events ", 100 * static_cast<double>(loss.count) / whole);
    return share.data() + std::string(loss.what);
  }
  return "";
}

}  // namespace mptune
