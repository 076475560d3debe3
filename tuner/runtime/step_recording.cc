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

void StepRunner::record_host_copies(const StageReplica& replica, MailboxChannel& channel) {
  const int device = graph_.device_of(replica), devices = static_cast<int>(graph_.devices().size());
  const std::string name = graph_.device(device).name();
  LaneLog* to_host = &collector_->lane(device, copy_lane(devices), "copies " + name + " to host memory");
  LaneLog* from_host = &collector_->lane(device, copy_lane(devices + 1), "copies host memory to " + name);
  const int out = collector_->name("copy device to host"), back = collector_->name("copy host to device");
  channel.set_observer([=, this, stage = replica.stage(), index = replica.replica()](MessageTag tag, std::int64_t bytes,
                                                                                     profiler::SteadyClock::time_point began,
                                                                                     profiler::SteadyClock::time_point ended) {
    const Tag event{static_cast<int>(steps_), stage, tag.microbatch, -1, index};
    tag.gradient ? from_host->add_copy(back, event, stage, {bytes, -1, device}, began, ended)
                 : to_host->add_copy(out, event, stage, {bytes, device, -1}, began, ended);
  });
}

void StepRunner::record(HostCollector* collector, TagSink* gpus) {
  graph_.drain();
  collector_ = collector;
  gpus_ = gpus;
  for (const BoundGraph::Replicas& replicas : graph_.stages())
    for (const auto& replica : replicas)
      if (replica) collector == nullptr ? replica->set_recorder(nullptr) : record_compute(*replica);
  for (BoundLink* link : graph_.links()) collector == nullptr ? link->channel->set_observer(nullptr) : record_copies(*link);
  for (const auto& [replica, channel] : graph_.host_channels())
    collector == nullptr ? channel->set_observer(nullptr) : record_host_copies(*replica, *channel);
}

}  // namespace mptune::tuner
