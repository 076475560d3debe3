#include "tuner/runtime/step/running_step.h"

#include <exception>

namespace mptune::tuner {

void RunningStep::run(const std::function<void(int device)>& work, const std::function<void()>& meanwhile,
                      const std::function<void()>& ended) {
  running = true;
  failed_at.clear();
  graph.for_devices(work, meanwhile);
  if (ended) ended();
  running = false;
  const auto error = graph.take_error();
  if (!error) return;
  graph.recover();
  std::rethrow_exception(error);
}

void RunningStep::for_replicas(int device, const std::function<void(StageReplica&)>& work) const {
  for (const BoundGraph::Replicas& replicas : graph.stages())
    for (const auto& replica : replicas)
      if (replica && graph.device_of(*replica) == device) work(*replica);
}

bool RunningStep::wait_unless_failed(int device, const std::function<bool()>& ready) {
  (void)wait(device, PendingWeights::Size::largest, [&] { return graph.failed() || ready(); });
  return !graph.failed();
}

void RunningStep::after(int device, const std::vector<MomentPtr>& moments) const {
  for (const MomentPtr& moment : moments) graph.device(device).after(moment);
}

}  // namespace mptune::tuner
