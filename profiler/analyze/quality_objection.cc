#include "profiler/analyze/quality_objection.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "profiler/base/index.h"

namespace mptune::profiler {

namespace {

// Copies that have no counterpart by nature: thousands of them would hide the missing ones of other work.
std::int64_t unified(const Trace& trace) {
  return std::count_if(trace.events.begin(), trace.events.end(), [&](const Event& event) {
    return event.kind == EventKind::copy && event.detail >= 0 && trace.copies.at(as_index(event.detail)).unified;
  });
}

}  // namespace

std::optional<QualityObjection> quality_objection(const Trace& trace) {
  using Loss = QualityObjection::Loss;
  if (!trace.implausible.empty()) return QualityObjection{.loss = Loss::implausible, .record = trace.implausible.front()};
  const TraceQuality& quality = trace.quality;
  const std::int64_t lost = quality.dropped + quality.zero_stamped;
  const std::int64_t whole = static_cast<std::int64_t>(trace.events.size()) + lost;
  const std::array losses{std::tuple(Loss::dropped, lost, whole), std::tuple(Loss::unmatched, quality.unmatched, whole - unified(trace)),
                          std::tuple(Loss::out_of_window, quality.out_of_window, whole)};
  for (const auto& [loss, count, all] : losses)
    if (count > 0 && static_cast<double>(count) > kMostLost * static_cast<double>(all))
      return QualityObjection{loss, static_cast<double>(count) / static_cast<double>(std::max<std::int64_t>(all, 1)), {}};
  return std::nullopt;
}

}  // namespace mptune::profiler
