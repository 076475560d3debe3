#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "tuner/runtime/graph/bound_graph.h"

namespace mptune::tuner {

/// Lets devices that wait compute weight gradients of any stage, if the plan says so. Only devices of one group (planner::helping_groups)
/// help each other, so that the bits are the same. A device computes one weight of one micro-batch (or of fused ones) at a time; the memory
/// stays charged to the stage's device.
///
///     cpu:0   F0 F1 .. W0 of stage 1 ..  I0 ..      cpu:0 waits for a gradient and has no weight gradient of its own
///     cpu:1         F0 F1 I0 I1 W0 W1
class IdleHelp {
 public:
  /// `graph` outlives this.
  explicit IdleHelp(BoundGraph& graph);

  /// Returns true if the device may help others, or be helped.
  [[nodiscard]] bool takes_part(int device) const { return !helped_[as_index(device)].empty(); }

  /// Waits for `ready()` to return true. Meanwhile the device computes weight gradients, its own stages' first: the smallest first while
  /// the row goes on, so that it is soon free again. `tag_of(replica, microbatch)` tags what is recorded into `collector`, if not null.
  /// Returns when the last of these computations ended, a time before the call if there was none.
  template <class Ready, class TagOf>
  profiler::SteadyClock::time_point wait(int device, PendingWeights::Size first, HostCollector* collector, const TagOf& tag_of,
                                         const Ready& ready) {
    std::atomic<bool>& idle = idle_[as_index(device)];
    idle = true;
    profiler::SteadyClock::time_point helped_until{};
    graph_.doorbell(device).wait([&] {
      while (!ready()) {
        if (!help(device, first, collector, tag_of)) return false;
        helped_until = profiler::SteadyClock::now();
      }
      return true;
    });
    idle = false;
    return helped_until;
  }

 private:
  template <class TagOf>
  bool help(int device, PendingWeights::Size first, HostCollector* collector, const TagOf& tag_of) {
    for (StageReplica* replica : helped_[as_index(device)]) {
      auto taken = replica->pending_weights().take(first);
      if (!taken) continue;
      compute(*taken, *replica, device, collector, collector == nullptr ? Tag() : tag_of(*replica, taken->microbatch));
      return true;
    }
    return false;
  }
  void compute(PendingWeights::Taken& taken, StageReplica& replica, int device, HostCollector* collector, const Tag& tag);
  void ring_idle();

  BoundGraph& graph_;
  std::vector<std::vector<StageReplica*>> helped_;  ///< per device: replicas whose weight gradients it may compute, its own first
  std::vector<std::atomic<bool>> idle_;             ///< per device: it waits in wait()
};

}  // namespace mptune::tuner
