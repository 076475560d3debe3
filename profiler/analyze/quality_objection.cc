#include "profiler/analyze/quality_objection.h"

#include <array>
#include <utility>

namespace mptune::profiler {

std::optional<QualityObjection> quality_objection(const Trace& trace) {
  using Loss = QualityObjection::Loss;
  const TraceQuality& quality = trace.quality;
  const std::array losses{std::pair(Loss::dropped, quality.dropped + quality.zero_stamped), std::pair(Loss::unmatched, quality.unmatched),
                          std::pair(Loss::out_of_window, quality.out_of_window)};
  const double whole = static_cast<double>(trace.events.size()) + static_cast<double>(losses[0].second);
  for (const auto& [loss, count] : losses)
    if (count > 0 && static_cast<double>(count) > kMostLost * whole) return QualityObjection{loss, static_cast<double>(count) / whole};
  return std::nullopt;
}

}  // namespace mptune::profiler
