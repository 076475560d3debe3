#pragma once

#include <cstdint>
#include <vector>

#include "profiler/measure/link_timing.h"
#include "tuner/runtime/between/rank_streams.h"

namespace mptune::tuner {

/// How messages get from one end of a link to the other.
class MessageWay {
 public:
  virtual ~MessageWay() = default;
  /// Returns the size of the largest message that is worth measuring.
  [[nodiscard]] virtual std::int64_t largest_bytes() const = 0;
  /// Returns a tensor of `bytes` bytes, where it is sent from.
  [[nodiscard]] virtual std::vector<at::Tensor> message_of(std::int64_t bytes) = 0;
  /// `kind`: as in RankStreams.
  virtual void send(std::int64_t kind, const std::vector<at::Tensor>& message) = 0;
  /// Waits until all of a message has arrived.
  virtual void receive(std::int64_t kind) = 0;
};

struct MeasuredEnd {
  LinkCost cost;
  profiler::CopyTime largest;  ///< of the largest message that was measured
  double both_at_once_s = 0;   ///< the same while the link back carries its largest message: until both have arrived
};

/// Measures the link from this rank to another one, which measures the one back: both call it at the same time. Sizes: 4 KiB, four times as
/// much, and so on, from 1 MiB on twice as much; slow links get none above 1 MiB that would take longer than 0.1 s, and fewer repeats, at
/// least 3. Times are medians. The time of a message is that from sending until the short answer has come, less half of what an empty
/// message takes there and back.
[[nodiscard]] MeasuredEnd measure_link(RankStreams& streams, int other, int tag, MessageWay& way, int repeats);

}  // namespace mptune::tuner
