#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "profiler/model/layers/layer.h"
#include "profiler/trace/collect/host_collector.h"
#include "tuner/runtime/between/rank_clocks.h"

namespace mptune::tuner {

/// What a rank recorded, to be sent.
[[nodiscard]] Tensors message_of(const HostLog& log);
/// Throws Error (internal) for a message of another form.
[[nodiscard]] HostLog log_from(const Tensors& message);

/// Sets the times of a log to the clock of rank 0. Copies of a device that another rank has began on that rank's clock.
/// `clocks`: by rank; `rank_of_device`: by device.
void set_to_first_clock(HostLog& log, int rank, const std::vector<RankClock>& clocks, const std::vector<int>& rank_of_device);

/// The clocks of all ranks during a recording: read before it, and after it. Every rank makes one, and stops it.
class RankClockWatch {
 public:
  /// `ranks`: null for a process that was started alone.
  explicit RankClockWatch(const std::shared_ptr<RankGroup>& ranks);
  /// By rank.
  [[nodiscard]] std::vector<RankClock> stop();

 private:
  std::optional<RankStreams> streams_;
  ClockReading before_;
};

/// How far two of the clocks may be apart [s].
[[nodiscard]] double clock_error_s(const std::vector<RankClock>& clocks);

}  // namespace mptune::tuner
