#include "tuner/runtime/idle_help.h"

#include <algorithm>

namespace mptune::tuner {

namespace {

bool alike(const DeviceSpec& a, const DeviceSpec& b) {
  return a.kind == DeviceSpec::Kind::cpu && b.kind == DeviceSpec::Kind::cpu && a.cores.size() == b.cores.size();
}

}  // namespace

IdleHelp::IdleHelp(BoundGraph& graph) : graph_(graph), helped_(graph.devices().size()), idle_(graph.devices().size()) {
  if (!graph.plan().options.idle_devices_help) return;
  const int devices = static_cast<int>(helped_.size());
  for (const BoundGraph::Replicas& replicas : graph.stages())
    for (const auto& replica : replicas) {
      for (int d = 0; d < devices; ++d)
        if (alike(graph.device(d).spec(), graph.device(graph.device_of(*replica)).spec())) helped_[as_index(d)].push_back(replica.get());
      replica->pending_weights().set_ready_observer([this] { ring_idle(); });
    }
  for (int d = 0; d < devices; ++d)
    std::ranges::stable_partition(helped_[as_index(d)], [&](const StageReplica* replica) { return graph.device_of(*replica) == d; });
}

void IdleHelp::compute(const PendingWeights::Taken& taken, StageReplica& replica, int device, HostCollector* collector, const Tag& tag) {
  const auto start = profiler::SteadyClock::now();
  {
    const auto charged = graph_.device(graph_.device_of(replica)).charge_thread();
    taken.gradient->run();
  }
  if (collector != nullptr) {
    LaneLog& log = collector->lane(device, kComputeLane, "stage worker " + graph_.device(device).name());
    replica.recorder()->leaf_elsewhere(log, EventKind::backward_weight, replica.layer_of(taken.gradient->weight()), tag, start);
  }
  replica.pending_weights().done(taken);
}

void IdleHelp::ring_idle() {
  for (std::size_t d = 0; d < idle_.size(); ++d)
    if (idle_[d]) graph_.doorbell(static_cast<int>(d)).ring();
}

}  // namespace mptune::tuner
