#include "tuner/runtime/step/step_recording.h"

#include <memory>
#include <string>

namespace mptune::tuner {
namespace {

using Time = profiler::SteadyClock::time_point;

void record_compute(const RunningStep& step, StageReplica& replica) {
  const int device = step.graph.device_of(replica);
  LaneLog& log = step.collector->lane(device, kComputeLane, "stage worker " + step.graph.device(device).name());
  replica.set_recorder(LeafRecorder(*step.collector, log, replica.first_layer(), replica.layer_names()));
}

void record_copies(const RunningStep& step, const BoundLink& link) {
  if (link.source == link.destination) return;
  const auto log_of = [&](int from, int to) {
    return &step.collector->lane(from, copy_lane(to), "copies " + step.graph.device(from).name() + " to " + step.graph.device(to).name());
  };
  LaneLog* forward = log_of(link.source, link.destination);
  LaneLog* backward = log_of(link.destination, link.source);
  const int activation = step.collector->name("copy activation"), gradient = step.collector->name(kGradientCopyName);
  link.channel->set_observer([=, &step, front = link.link.front, back = link.link.back, source = link.source,
                              destination = link.destination](MessageTag tag, std::int64_t bytes, Time began, Time ended) {
    // A copy is tagged with the stage that receives it.
    const Tag event{static_cast<int>(step.number), tag.gradient ? front : back, tag.microbatch, -1, -1};
    if (tag.gradient)
      backward->add_copy(gradient, event, back, {bytes, destination, source, true}, began, ended);
    else
      forward->add_copy(activation, event, front, {bytes, source, destination}, began, ended);
  });
}

void record_host_copies(const RunningStep& step, const StageReplica& replica, MailboxChannel& channel) {
  const int device = step.graph.device_of(replica), devices = static_cast<int>(step.graph.devices().size());
  const std::string name = step.graph.device(device).name();
  LaneLog* to_host = &step.collector->lane(device, copy_lane(devices), "copies " + name + " to host memory");
  LaneLog* from_host = &step.collector->lane(device, copy_lane(devices + 1), "copies host memory to " + name);
  const int out = step.collector->name("copy device to host"), back = step.collector->name("copy host to device");
  channel.set_observer(
      [=, &step, stage = replica.stage(), index = replica.replica()](MessageTag tag, std::int64_t bytes, Time began, Time ended) {
        const Tag event{static_cast<int>(step.number), stage, tag.microbatch, -1, index};
        tag.gradient ? from_host->add_copy(back, event, stage, {bytes, -1, device}, began, ended)
                     : to_host->add_copy(out, event, stage, {bytes, device, -1}, began, ended);
      });
}

}  // namespace

void record_steps(RunningStep& step, HostCollector* collector, TagSink* gpus) {
  step.graph.drain();
  step.collector = collector;
  step.gpus = gpus;
  for (const BoundGraph::Replicas& replicas : step.graph.stages())
    for (const auto& replica : replicas)
      if (replica) collector == nullptr ? replica->set_recorder({}) : record_compute(step, *replica);
  for (BoundLink* link : step.graph.links()) collector == nullptr ? link->channel->set_observer(nullptr) : record_copies(step, *link);
  for (const auto& [replica, channel] : step.graph.host_channels())
    collector == nullptr ? channel->set_observer(nullptr) : record_host_copies(step, *replica, *channel);
}

}  // namespace mptune::tuner
