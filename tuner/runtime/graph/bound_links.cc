// How messages travel between the devices of a BoundGraph:
//
//     devices of this process      copy lane, or the calling thread
//     GPUs of different ranks      carried by NCCL, announced over Gloo
//     others of different ranks    Gloo; a GPU's through lanes to and from host memory
#include <cassert>
#include <set>

#include "profiler/base/index.h"
#include "tuner/runtime/graph/bound_graph.h"

namespace mptune::tuner {

std::vector<BoundGraph::Pair> BoundGraph::pairs() const {
  std::vector<Pair> all;
  for (const StageLink& link : stage_links_) {
    const Stage& front = plan_.stages[as_index(link.front)];
    const Stage& back = plan_.stages[as_index(link.back)];
    for (int m = 0; m < plan_.num_microbatches(); ++m)
      all.push_back({&link, replica_of(front, m), replica_of(back, m), mptune::device_of(front, m), mptune::device_of(back, m)});
  }
  return all;
}

void BoundGraph::connect(const profiler::GpuConnector* connector) {
  if (!ranks_) return;
  DirectLinks::Wanted wanted{.devices = devices_, .messages = {}, .sums = {}, .connector = connector};
  for (const Pair& pair : pairs())
    if (rank_of(pair.source) != rank_of(pair.destination)) {
      wanted.messages.emplace(pair.source, pair.destination);
      wanted.messages.emplace(pair.destination, pair.source);
    }
  for (int stage = 0; stage < plan_.num_stages(); ++stage)
    if (all_reduces(stage)) {
      std::set<int> ranks;
      for (const int device : plan_.stages[as_index(stage)].devices)
        if (ranks.insert(rank_of(device)).second) wanted.sums[stage].push_back(device);
    }
  direct_.emplace(*ranks_, wanted, kTagOfConnections);
}

void BoundGraph::add_lanes(const LinkThrottle& link) {
  const auto add = [&](int source, int destination) {
    auto& lane = lanes_[{source, destination}];
    if (!lane) lane = std::make_unique<profiler::CopyLane>(devices_[as_index(source)], devices_[as_index(destination)], link);
  };
  for (const Pair& pair : pairs()) {
    if (pair.source == pair.destination) continue;
    if (is_here(pair.source) && is_here(pair.destination)) {
      add(pair.source, pair.destination);
      add(pair.destination, pair.source);
      continue;
    }
    if (direct(pair.source, pair.destination) != nullptr) continue;
    // What this rank exchanges with others lies in host memory.
    for (const int end : {pair.source, pair.destination})
      if (is_here(end) && device(end).spec().kind == DeviceSpec::Kind::cuda) add_host_lanes(end, link);
  }
  for (std::size_t d = 0; d < devices_.size(); ++d)
    if (!offloaded_[d].empty()) add_host_lanes(static_cast<int>(d), link);
}

void BoundGraph::add_host_lanes(int device, const LinkThrottle& link) {
  auto& out = lanes_[{device, kHostMemory}];
  if (out) return;
  const std::shared_ptr<Device>& own = devices_[as_index(device)];
  const std::shared_ptr<Device> host = make_host_memory(*own);
  out = std::make_unique<profiler::CopyLane>(own, host, link);
  lanes_[{kHostMemory, device}] = std::make_unique<profiler::CopyLane>(host, own, link);
}

/// `tag`: the tag of the stream between ranks.
MailboxChannel::Direction BoundGraph::direction(int source, int destination, int tag, bool gradient) {
  const auto lane = [this](int from, int to) {
    const auto found = lanes_.find({from, to});
    return found == lanes_.end() ? nullptr : found->second.get();
  };
  if (is_here(source) && is_here(destination)) return {lane(source, destination), &doorbell(destination)};
  profiler::GpuCommunicator* const straight = direct(source, destination);
  if (is_here(destination)) return {straight != nullptr ? nullptr : lane(kHostMemory, destination), &doorbell(destination)};
  if (straight != nullptr)
    return {nullptr, nullptr,
            [this, straight, to = rank_of(destination), tag](MessageTag message, const Tensors& tensors, MailboxChannel::Time began) {
              return send_directly(*straight, to, tag, message, tensors, began);
            }};
  return {lane(source, kHostMemory), nullptr,
          [this, to = rank_of(destination), tag, gradient](MessageTag message, Tensors tensors, MailboxChannel::Time began) -> MomentPtr {
            assert(message.gradient == gradient);
            ranks_->send(to, tag, kind_of_message(message), tensors, began);
            return nullptr;
          }};
}

// A message is announced once it is queued here: what other GPUs wait for is then in a queue, and needs no thread of this process. A thread
// may have to wait for all queues of its GPU, as CUDA does before it loads a kernel.
MomentPtr BoundGraph::send_directly(profiler::GpuCommunicator& communicator, int to, int tag, MessageTag message, const Tensors& tensors,
                                    MailboxChannel::Time began) {
  const TensorLayout layout = layout_of(tensors);
  MomentPtr read = communicator.send(1, flat_tensors(tensors, layout));
  ranks_->announce(to, tag, kind_of_message(message), layout, began);
  return read;
}

std::int64_t BoundGraph::kind_of_message(MessageTag tag) const {
  return shapes_ * 2 * plan_.num_microbatches() + 2 * tag.microbatch + (tag.gradient ? 1 : 0);
}

void BoundGraph::add_links() {
  const auto count = as_index(plan_.num_microbatches());
  int tag = kTagOfLinks;
  for (const auto& [link, front_replica, back_replica, source, destination] : pairs()) {
    auto& bound = links_[{link->front, front_replica, link->back, back_replica}];
    if (bound) continue;
    bound = std::make_unique<BoundLink>(
        BoundLink{*link, tag, source, destination, nullptr, std::vector<char>(count), std::vector<char>(count)});
    tag += 2;
    if (!is_here(source) && !is_here(destination)) continue;
    bound->channel = std::make_unique<MailboxChannel>(plan_.num_microbatches(), direction(source, destination, bound->tag, false),
                                                      direction(destination, source, bound->tag + 1, true),
                                                      [this](std::exception_ptr error) { (void)fail(std::move(error)); });
  }
}

BoundLink* BoundGraph::link_for(const StageLink& link, int microbatch) const {
  const auto replica = [&](int stage) { return replica_of(plan_.stages[as_index(stage)], microbatch); };
  return links_.at({link.front, replica(link.front), link.back, replica(link.back)}).get();
}

std::vector<BoundLink*> BoundGraph::links() const {
  std::vector<BoundLink*> all;
  for (const auto& [ends, link] : links_)
    if (link->channel) all.push_back(link.get());
  return all;
}

}  // namespace mptune::tuner
