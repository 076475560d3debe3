#pragma once

#include <cstdint>
#include <vector>

#include "profiler/trace/analyze/step_work.h"

namespace mptune::profiler {

/// A forward, a backward or a part of one that took far longer, or started far later, than others like it.
struct Stall {
  enum class Kind : std::uint8_t {
    longer,  ///< it took longer
    late,    ///< it started later after all that it depends on had ended
  };
  Kind kind = Kind::longer;
  int step = 0;              ///< index into the steps
  int work = 0;              ///< index into StepWork::works
  Nanoseconds time{0};       ///< how long it took, or how late it started
  Nanoseconds typical{0};    ///< the usual time of actions like it
  Nanoseconds price{0};      ///< how much shorter the replayed step is if the action takes `typical`, >= 0
  Nanoseconds step_time{0};  ///< of its step, replayed
  bool operator==(const Stall&) const = default;

  [[nodiscard]] Nanoseconds excess() const { return time - typical; }
  /// True if waits of other work hide it: it costs less than a thousandth of its step.
  [[nodiscard]] bool is_hidden() const { return price == Nanoseconds{0} || price < step_time / 1000; }
};

/// What counts as a stall.
inline constexpr double kLeastStallShare = 0.005;  ///< of the step: a shorter stall is worth no advice
inline constexpr double kLeastStallSpreads = 6;    ///< robust standard deviations
inline constexpr int kLeastPeers = 3;
inline constexpr int kMostStalls = 1000;

/// Returns the stalls of a recording, dearest first, then longest first.
///
/// Peers of an action are those of the same device, stage and kind in all steps. Its typical time is their median (the lower one of two in
/// the middle); with three steps or more, at least the median of the same micro-batch over the steps, so that what recurs in every step is
/// no stall. An action is a stall where its time exceeds that by more than kLeastStallSpreads standard deviations (1.4826 times the median
/// absolute deviation of its peers or of its micro-batch, whichever is larger) and by more than kLeastStallShare of its step. With fewer
/// than kLeastPeers peers there is none.
///
/// Late starts are found by the same rule: the time from the end of all producers, or from the start of the step, to the action's start.
/// Peers also wait for the same thing: the same lane, another lane, or nothing; if too few peers wait like this, all that wait are peers. A
/// late start right after the end of a longer action, on a device that exchanges something with the late action's device, waits for that
/// action (a blocking send): it is no stall, but a dependency.
///
/// The price is exact for this model: a replay of the step in which every work starts as long after the end of its producers as it did and
/// takes as long as it did, minus the same replay in which the stall has its typical time. Prices of several stalls of a step do not add
/// up.
///
/// Only the kMostStalls largest are priced and returned. O(works log works + stalls * works of a step).
[[nodiscard]] std::vector<Stall> find_stalls(const std::vector<StepWork>& steps);

/// One step as it is replayed: a work starts `lag` after the end of its producers, or after the step's start if it has none.
struct StallReplay {
  std::vector<Edge> edges;
  std::vector<Nanoseconds> lag;
  std::vector<Nanoseconds> duration;  ///< from the start to the end of a work
};
[[nodiscard]] StallReplay stall_replay(const StepWork& step);
/// Returns when its last work ends, from the step's start on.
[[nodiscard]] Nanoseconds end_of(const StallReplay& replay);

}  // namespace mptune::profiler
