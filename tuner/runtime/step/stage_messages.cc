#include "tuner/runtime/step/stage_messages.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <ranges>
#include <utility>

#include "profiler/base/index.h"

namespace mptune::tuner {

namespace {

bool any_needs_gradient(const Tensors& tensors) {
  return std::ranges::any_of(tensors, [](const at::Tensor& tensor) { return tensor.defined() && tensor.requires_grad(); });
}

using Slots = std::vector<std::pair<int, int>>;

Tensors chosen(const Tensors& tensors, const Slots& slots, int Slots::value_type::*index) {
  Tensors some;
  for (const auto& slot : slots) some.push_back(tensors.at(as_index(slot.*index)));
  return some;
}

void place(Tensors received, const Slots& slots, Tensors& taken) {
  for (std::size_t i = 0; i < slots.size(); ++i) taken.at(as_index(slots[i].second)) = std::move(received.at(i));
}

}  // namespace

/// Receives a message. A device that helps others meanwhile counts as idle only after it has helped.
Message StageMessages::await(Channel& channel, MessageTag tag, int device, profiler::SteadyClock::time_point& idle_since) {
  if (!step_.help.takes_part(device)) return channel.receive(tag);
  std::optional<Message> message;
  const auto helped = step_.wait(device, PendingWeights::Size::smallest, [&] { return (message = channel.try_receive(tag)).has_value(); });
  idle_since = std::max(idle_since, helped);
  return std::move(*message);
}

Message StageMessages::receive(Channel& channel, MessageTag tag, const BoundAction& bound, const char* why) {
  LeafRecorder& recorder = bound.stage->recorder();
  const int device = graph_.device_of(*bound.stage);
  const bool waits = recorder.records() && !channel.arrived(tag);
  auto idle_since = profiler::SteadyClock::now();
  Message message = await(channel, tag, device, idle_since);
  if (waits) recorder.leaf(EventKind::sync, why, step_.tag_of(bound), idle_since);
  return message;
}

Tensors StageMessages::receive(Channel& channel, MessageTag tag, const BoundAction& bound) {
  Message message = receive(channel, tag, bound, tag.gradient ? "wait for gradient" : "wait for input");
  device_of(bound).after(message.there);
  return std::move(message.tensors);
}

Tensors StageMessages::receive_inputs(const BoundAction& bound) {
  const int m = bound.action.microbatch;
  Device& device = device_of(bound);
  Tensors from_batch;
  for (const at::Tensor& input : inputs_.inputs_of(bound.action.stage, m)) from_batch.push_back(device.from_host(input));
  if (bound.tensors->takes_batch) return from_batch;
  Tensors taken(as_index(bound.tensors->taken));
  place(std::move(from_batch), bound.tensors->batch, taken);
  for (BoundLink* link : bound.before) {
    Tensors received = receive(*link->channel, {false, m}, bound);
    link->back_owes[as_index(m)] = any_needs_gradient(received) ? 1 : 0;
    if (link->link.everything) return received;
    place(std::move(received), link->link.slots, taken);
  }
  return taken;
}

// The channels alone hold what is sent: when it arrives, its memory is free here. What the receiver sends back may arrive before this
// thread goes on.
void StageMessages::send_outputs(const BoundAction& bound, Tensors outputs) {
  const int m = bound.action.microbatch;
  std::vector<Tensors> messages;
  for (const BoundLink* link : bound.behind)
    messages.push_back(link->link.everything ? outputs : chosen(outputs, link->link.slots, &Slots::value_type::first));
  outputs.clear();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    BoundLink* link = bound.behind[i];
    link->front_awaits[as_index(m)] = any_needs_gradient(messages[i]) ? 1 : 0;
    link->channel->send({false, m}, std::move(messages[i]));
  }
}

// Adds gradients of later stages first, as autograd does.
Tensors StageMessages::receive_gradients(const BoundAction& bound) {
  const int m = bound.action.microbatch;
  Tensors gradients(as_index(bound.tensors->returned));
  for (BoundLink* link : bound.behind | std::views::reverse) {
    if (link->front_awaits[as_index(m)] == 0) continue;
    Tensors received = receive(*link->channel, {true, m}, bound);
    if (link->link.everything) return received;
    for (std::size_t i = 0; i < received.size(); ++i) {
      at::Tensor& sum = gradients.at(as_index(link->link.slots[i].first));
      if (received[i].defined()) sum = sum.defined() ? sum + received[i] : std::move(received[i]);
    }
  }
  return gradients;
}

void StageMessages::send_gradients(const BoundAction& bound, Tensors gradients) {
  const int m = bound.action.microbatch;
  const auto owes = [m](const BoundLink& link) { return link.back_owes[as_index(m)] != 0; };
  std::vector<Tensors> messages(bound.before.size());
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const BoundLink& link = *bound.before[i];
    if (owes(link)) messages[i] = link.link.everything ? gradients : chosen(gradients, link.link.slots, &Slots::value_type::second);
  }
  gradients.clear();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const BoundLink& link = *bound.before[i];
    // Another rank can't know that no gradient is owed, and waits for a message.
    if (owes(link) || !graph_.is_here(link.source)) link.channel->send({true, m}, std::move(messages[i]));
  }
}

void StageMessages::await_sent(const BoundAction& bound) {
  if (bound.action.kind == ActionKind::backward_weight) return;
  const bool gradient = bound.action.kind != ActionKind::forward;
  for (BoundLink* link : gradient ? bound.before : bound.behind) link->channel->await_sent({gradient, bound.action.microbatch});
}

/// The memory of a copy to the host is free when the copy is done. A GPU's thread is ahead of its work, so it waits here: memory that is
/// free later can't be given to the next action.
void StageMessages::free(const BoundOffload& offload, const BoundAction& before) {
  if (step_.parts.empty(offload.microbatch)) return;
  Message message = receive(*offload.host, {false, offload.microbatch}, before, "wait for copy to the host");
  wait_for(message.there);
  offload.stage->free_saved(offload.microbatch, std::move(message.tensors));
}

void StageMessages::fetch(const BoundOffload& offload) {
  if (step_.parts.empty(offload.microbatch)) return;
  offload.host->send({true, offload.microbatch}, offload.stage->take_copies(offload.microbatch));
}

void StageMessages::restore(const BoundAction& bound) {
  if (bound.host == nullptr) return;
  const int m = bound.action.microbatch;
  const Message message = receive(*bound.host, {true, m}, bound, "wait for copy from the host");
  device_of(bound).after(message.there);
  bound.stage->restore_saved(m, message.tensors);
}

}  // namespace mptune::tuner
