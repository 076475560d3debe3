#include "tuner/runtime/ranks/rank_receivers.h"

#include <algorithm>

#include "profiler/base/index.h"

namespace mptune::tuner {

RankReceivers::RankReceivers(BoundGraph& graph) : graph_(graph) {
  if (graph_.ranks() == nullptr) return;
  const auto devices = static_cast<int>(graph_.devices().size());
  for (int source = 0; source < devices; ++source)
    for (int destination = 0; destination < devices; ++destination)
      if (!graph_.is_here(source) && graph_.is_here(destination) && !expected(source, destination, nullptr, true).empty()) {
        Receiver& receiver = receivers_.emplace_back();
        receiver.source = source;
        receiver.destination = destination;
      }
  for (Receiver& receiver : receivers_) receiver.thread = std::thread([this, &receiver] { loop(receiver); });
}

RankReceivers::~RankReceivers() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (Receiver& receiver : receivers_) receiver.thread.join();
}

/// Returns what `source` sends to `destination`, in the order of sending. `parts`: null for all micro-batches.
std::vector<RankReceivers::Expected> RankReceivers::expected(int source, int destination, const BatchParts* parts, bool backwards) const {
  std::vector<Expected> messages;
  for (const Action& action : graph_.plan().actions[as_index(source)]) {
    const bool forward = action.kind == ActionKind::forward;
    if (action.kind == ActionKind::backward_weight || (!forward && !backwards)) continue;
    if (parts != nullptr && parts->empty(action.microbatch)) continue;
    for (const StageLink& stages : graph_.links_of_stages()) {
      if ((forward ? stages.front : stages.back) != action.stage) continue;
      BoundLink* link = graph_.link_for(stages, action.microbatch);
      if ((forward ? link->destination : link->source) == destination) messages.push_back({link, {!forward, action.microbatch}});
    }
  }
  return messages;
}

void RankReceivers::begin(const BatchParts& parts, bool backwards) {
  {
    const std::lock_guard lock(mutex_);
    for (Receiver& receiver : receivers_) {
      receiver.of_step = expected(receiver.source, receiver.destination, &parts, backwards);
      receiver.busy = true;
    }
  }
  changed_.notify_all();
}

void RankReceivers::end() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return std::ranges::none_of(receivers_, [](const Receiver& receiver) { return receiver.busy; }); });
}

void RankReceivers::loop(Receiver& receiver) {
  const auto charged = graph_.device(receiver.destination).charge_thread();
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || receiver.busy; });
    if (!receiver.busy) return;
    lock.unlock();
    receive(receiver);
    lock.lock();
    receiver.busy = false;
    changed_.notify_all();
  }
}

void RankReceivers::receive(const Receiver& receiver, const Expected& expected) {
  const auto& [link, tag] = expected;
  const int from = graph_.rank_of(receiver.source), stream = link->tag + (tag.gradient ? 1 : 0);
  Message message;
  MailboxChannel::Time sent;
  if (auto* const direct = graph_.direct(receiver.source, receiver.destination); direct != nullptr) {
    const RankStreams::Announced announced = graph_.ranks()->receive_announced(from, stream, graph_.kind_of_message(tag));
    profiler::Copied copied = direct->receive(0, flat_likes(announced.layout));
    message = {from_flat(announced.layout, copied.tensors), std::move(copied.there)};
    sent = announced.sent;
  } else {
    RankStreams::Received received = graph_.ranks()->receive_message(from, stream, graph_.kind_of_message(tag));
    message.tensors = std::move(received.tensors);
    sent = received.sent;
  }
  // An empty message stands for a gradient that is not owed: the front stage does not wait for it.
  if (!message.tensors.empty()) link->channel->arrive(tag, std::move(message), sent);
}

void RankReceivers::receive(const Receiver& receiver) {
  try {
    for (const Expected& expected : receiver.of_step) receive(receiver, expected);
  } catch (...) {
    (void)graph_.fail(std::current_exception());
  }
}

}  // namespace mptune::tuner
