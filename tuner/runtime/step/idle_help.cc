#include "tuner/runtime/step/idle_help.h"

#include <algorithm>
#include <string>
#include <vector>

#include "planner/plan/helping.h"
#include "profiler/base/index.h"

namespace mptune::tuner {

IdleHelp::IdleHelp(BoundGraph& graph) : graph_(graph), helped_(graph.devices().size()), idle_(graph.devices().size()) {
  if (!graph.plan().options.idle_devices_help) return;
  std::vector<std::string> names;
  for (const auto& device : graph.devices()) names.push_back(device->name());
  const std::vector<int> groups = planner::helping_groups(names, graph.plan().options.threads);
  const auto group_of = [&](const StageReplica& replica) { return groups[as_index(graph.device_of(replica))]; };
  for (const BoundGraph::Replicas& replicas : graph.stages())
    for (const auto& replica : replicas) {
      if (!replica || group_of(*replica) < 0) continue;
      for (std::size_t d = 0; d < helped_.size(); ++d)
        if (groups[d] == group_of(*replica)) helped_[d].push_back(replica.get());
      replica->pending_weights().set_ready_observer([this] { ring_idle(); });
    }
  for (std::size_t d = 0; d < helped_.size(); ++d)
    std::ranges::stable_partition(helped_[d],
                                  [&](const StageReplica* replica) { return graph.device_of(*replica) == static_cast<int>(d); });
}

void IdleHelp::compute(PendingWeights::Taken& taken, StageReplica& replica, int device, HostCollector* collector, const Tag& tag) {
  const auto start = profiler::SteadyClock::now();
  {
    const auto charged = graph_.device(graph_.device_of(replica)).charge_thread();
    profiler::run_together(taken.gradients);
  }
  if (collector != nullptr) {
    LaneLog& log = collector->lane(device, kComputeLane, "stage worker " + graph_.device(device).name());
    replica.recorder().weights_elsewhere(log, replica.layer_of(taken.weight), tag, taken.further, start);
  }
  replica.pending_weights().done(taken);
}

void IdleHelp::ring_idle() {
  for (std::size_t d = 0; d < idle_.size(); ++d)
    if (idle_[d]) graph_.doorbell(static_cast<int>(d)).ring();
}

}  // namespace mptune::tuner
