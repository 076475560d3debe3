#pragma once

#include <map>
#include <string>
#include <vector>

#include "profiler/device/precise_sleep.h"
#include "profiler/trace/collect/host_collector.h"

namespace mptune::tuner {

/// Records the events inside one stage's actions, called leaves: an event per layer and direction. A leaf begins where the one before it
/// ended. Use from the device's compute thread only. One that is made without arguments records nothing: all its functions do nothing.
class LeafRecorder {
 public:
  LeafRecorder() = default;
  /// `layers` are the names of the stage's layers.
  LeafRecorder(HostCollector& collector, LaneLog& log, int first_layer, const std::vector<std::string>& layers);

  /// Returns whether anything is recorded.
  [[nodiscard]] bool records() const { return collector_ != nullptr; }
  /// Begins the next leaf now.
  void begin(const Tag& tag);
  /// Ends the current leaf: it was `kind` of `layer` (index in the model; one past the stage's last layer is the loss).
  void leaf(EventKind kind, int layer);
  /// Records a leaf that belongs to no layer, from `start` to now: "wait", "optimizer", "sum gradients".
  void leaf(EventKind kind, const char* name, const Tag& tag, profiler::SteadyClock::time_point start);
  /// Records weight gradients of `layer` that another device computed, for the tag's micro-batch and `further` ones fused with it. `log` is
  /// the other device's. Any thread may call this with a log of its own.
  void weights_elsewhere(LaneLog& log, int layer, const Tag& tag, int further, profiler::SteadyClock::time_point start) const;
  /// Records an action of the schedule, from `start` to now, as the range around its leaves.
  void range(const char* name, const Tag& tag, profiler::SteadyClock::time_point start);

 private:
  HostCollector* collector_ = nullptr;  ///< null: nothing is recorded
  LaneLog* log_ = nullptr;
  int first_layer_ = 0;
  std::map<EventKind, std::vector<int>> names_;  ///< by kind: names of the layers and of the loss
  Tag tag_;
  profiler::SteadyClock::time_point last_;
};

}  // namespace mptune::tuner
