#include "tuner/runtime/step_runner.h"

namespace mptune::tuner {

void StepRunner::record_compute(StageReplica& replica) {
  const int device = graph_.device_of(replica);
  LaneLog& log = collector_->lane(device, kComputeLane, "stage worker " + graph_.device(device).name());
  replica.set_recorder(std::make_unique<LeafRecorder>(*collector_, log, replica.first_layer(), replica.layer_names()));
}

void StepRunner::record_copies(BoundLink& link) {
  if (link.source == link.destination) return;
  const auto log_of = [this](int from, int to) {
    return &collector_->lane(from, copy_lane(to), "copies " + graph_.device(from).name() + " to " + graph_.device(to).name());
  };
  LaneLog* forward = log_of(link.source, link.destination);
  LaneLog* backward = log_of(link.destination, link.source);
  const int activation = collector_->name("copy activation"), gradient = collector_->name("copy gradient");
  link.channel->set_observer(
      [=, this, front = link.link.front, back = link.link.back, source = link.source, destination = link.destination](
          MessageTag tag, std::int64_t bytes, profiler::SteadyClock::time_point began, profiler::SteadyClock::time_point ended) {
        // A copy is tagged with the stage that receives it.
        const Tag event{static_cast<int>(steps_), tag.gradient ? front : back, tag.microbatch, -1, -1};
        if (tag.gradient)
          backward->add_copy(gradient, event, back, {bytes, destination, source, true}, began, ended);
        else
          forward->add_copy(activation, event, front, {bytes, source, destination}, began, ended);
      });
}

void StepRunner::record(HostCollector* collector, TagSink* gpus) {
  graph_.drain();
  collector_ = collector;
  gpus_ = gpus;
  for (const BoundGraph::Replicas& replicas : graph_.stages())
    for (const auto& replica : replicas) collector == nullptr ? replica->set_recorder(nullptr) : record_compute(*replica);
  for (BoundLink* link : graph_.links()) collector == nullptr ? link->channel->set_observer(nullptr) : record_copies(*link);
}

}  // namespace mptune::tuner
