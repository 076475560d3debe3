#include "mptune/tuner/runtime/pipeline_impl.h"

namespace mptune {

void Pipeline::Impl::record_compute(StageReplica& replica) {
  const int device = device_of_replica(replica);
  LaneLog& log = collector->lane(device, kComputeLane, "stage worker " + devices[static_cast<std::size_t>(device)]->name());
  replica.set_recorder(std::make_unique<LeafRecorder>(*collector, log, replica.first_layer(), replica.layer_names()));
}

void Pipeline::Impl::record_copies(int front_stage, int source, int destination, InProcessChannel& channel) {
  if (source == destination) return;
  const auto log_of = [this](int from, int to) {
    return &collector->lane(
        from, copy_lane(to),
        "copies " + devices[static_cast<std::size_t>(from)]->name() + " to " + devices[static_cast<std::size_t>(to)]->name());
  };
  LaneLog* forward = log_of(source, destination);
  LaneLog* backward = log_of(destination, source);
  const int activation = collector->name("copy activation"), gradient = collector->name(kGradientCopyName);
  channel.set_observer([=, this](MessageTag tag, std::int64_t bytes, SteadyClock::time_point began, SteadyClock::time_point ended) {
    // A copy is tagged with the stage that receives it.
    const Tag event{static_cast<int>(steps), tag.gradient ? front_stage : front_stage + 1, tag.microbatch, -1, -1};
    if (tag.gradient) {
      backward->add_copy(gradient, event, {bytes, destination, source, true}, began, ended);
    } else {
      forward->add_copy(activation, event, {bytes, source, destination}, began, ended);
    }
  });
}

void Pipeline::record(HostCollector* collector, TagSink* gpus) {
  Impl& impl = *impl_;
  for (auto& [ends, lane] : impl.lanes) lane->drain();
  impl.collector = collector;
  impl.gpus = gpus;
  for (auto& replicas : impl.stages)
    for (auto& replica : replicas) collector == nullptr ? replica->set_recorder(nullptr) : impl.record_compute(*replica);
  for (auto& [ends, channel] : impl.channels) {
    const auto [front, front_replica, back_replica] = ends;
    const auto& stages = impl.plan.stages;
    const int source = stages[static_cast<std::size_t>(front)].devices[static_cast<std::size_t>(front_replica)];
    const int destination = stages[static_cast<std::size_t>(front) + 1].devices[static_cast<std::size_t>(back_replica)];
    collector == nullptr ? channel->set_observer(nullptr) : impl.record_copies(front, source, destination, *channel);
  }
}

}  // namespace mptune
