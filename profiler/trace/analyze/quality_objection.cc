#include "profiler/trace/analyze/quality_objection.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "profiler/base/index.h"
#include "profiler/trace/analyze/step_work.h"

namespace mptune::profiler {

namespace {

// Counts copies that have no counterpart by nature: thousands of them would hide the missing counterparts of other work.
std::int64_t unified(const Trace& trace) {
  return std::count_if(trace.events.begin(), trace.events.end(), [&](const Event& event) {
    return event.kind == EventKind::copy && event.detail >= 0 && trace.copies.at(as_index(event.detail)).unified;
  });
}

// Returns the time in unmatched communications as a share of the devices' time in the steps.
double unmatched_share(const Trace& trace) {
  if (trace.quality.unmatched_ns <= 0) return 0;
  double time = 0;
  for (const StepWindow& window : windows_of(trace)) time += static_cast<double>((window.end - window.start).count());
  time *= static_cast<double>(trace.devices.size());
  return time > 0 ? static_cast<double>(trace.quality.unmatched_ns) / time : 0;
}

}  // namespace

std::optional<QualityObjection> quality_objection(const Trace& trace) {
  using Loss = QualityObjection::Loss;
  if (!trace.implausible.empty()) return QualityObjection{.loss = Loss::implausible, .record = trace.implausible.front()};
  if (const double share = unmatched_share(trace); share > kMostLost) return QualityObjection{Loss::unmatched_time, share, {}};
  const TraceQuality& quality = trace.quality;
  const std::int64_t lost = quality.dropped + quality.zero_stamped;
  const std::int64_t whole = static_cast<std::int64_t>(trace.events.size()) + lost;
  const std::array losses{std::tuple(quality.zero_stamped > quality.dropped ? Loss::zero_stamped : Loss::dropped, lost, whole),
                          std::tuple(Loss::unmatched, quality.unmatched, whole - unified(trace)),
                          std::tuple(Loss::ambiguous, quality.ambiguous, whole),
                          std::tuple(Loss::out_of_window, quality.out_of_window, whole)};
  for (const auto& [loss, count, all] : losses)
    if (count > 0 && static_cast<double>(count) > kMostLost * static_cast<double>(all))
      return QualityObjection{loss, static_cast<double>(count) / static_cast<double>(std::max<std::int64_t>(all, 1)), {}};
  return std::nullopt;
}

}  // namespace mptune::profiler
