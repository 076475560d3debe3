#include "tuner/runtime/channel.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace mptune::tuner {

namespace {

struct Place {
  bool defined = false;
  bool requires_grad = false;
};

std::vector<Place> places_of(const Tensors& tensors) {
  std::vector<Place> places;
  for (const at::Tensor& tensor : tensors) places.push_back({tensor.defined(), tensor.defined() && tensor.requires_grad()});
  return places;
}

/// Puts the copies of the defined tensors back at their indices.
Tensors placed(const std::vector<Place>& places, Tensors copies) {
  Tensors tensors(places.size());
  auto next = copies.begin();
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (!places[i].defined) continue;
    tensors[i] = std::move(*next++);
    tensors[i].set_requires_grad(places[i].requires_grad);
  }
  return tensors;
}

}  // namespace

InProcessChannel::InProcessChannel(int microbatches, Direction forward, Direction backward, std::function<void(std::exception_ptr)> failed)
    : directions_{forward, backward}, failed_(std::move(failed)), slots_(2 * as_index(microbatches)) {}

void InProcessChannel::send(MessageTag tag, Tensors tensors) {
  profiler::CopyLane* lane = direction_of(tag).lane;
  std::vector<Place> places = places_of(tensors);
  const bool nothing = std::ranges::none_of(places, &Place::defined);
  if (lane == nullptr || nothing) return deliver(tag, {std::move(tensors), nullptr});
  std::erase_if(tensors, [](const at::Tensor& tensor) { return !tensor.defined(); });
  lane->copy(
      std::move(tensors),
      [this, tag, places = std::move(places)](profiler::CopyLane::Arrival arrival) {
        std::int64_t bytes = 0;
        for (const at::Tensor& copy : arrival.tensors) bytes += static_cast<std::int64_t>(copy.nbytes());
        // The observer is called before delivery: the receiver may end the step as soon as it has its input.
        if (observer_) observer_(tag, bytes, arrival.began, arrival.ended);
        deliver(tag, {placed(places, std::move(arrival.tensors)), std::move(arrival.there)});
      },
      [this](std::exception_ptr error) { failed_(std::move(error)); });
}

void InProcessChannel::deliver(MessageTag tag, Message message) {
  Slot& slot = slot_of(tag);
  slot.message = std::move(message);
  slot.arrived = true;
  direction_of(tag).receiver->ring();
}

Message InProcessChannel::receive(MessageTag tag) {
  direction_of(tag).receiver->wait([&] { return cancelled_ || arrived(tag); });
  return *try_receive(tag);
}

std::optional<Message> InProcessChannel::try_receive(MessageTag tag) {
  if (cancelled_) throw StepCancelled();
  if (!arrived(tag)) return std::nullopt;
  Slot& slot = slot_of(tag);
  slot.arrived = false;
  return std::exchange(slot.message, {});
}

bool InProcessChannel::arrived(MessageTag tag) {
  return slot_of(tag).arrived;
}

void InProcessChannel::cancel() {
  cancelled_ = true;
  for (const Direction& direction : directions_) direction.receiver->ring();
}

void InProcessChannel::reset() {
  for (Slot& slot : slots_) {
    slot.message = {};
    slot.arrived = false;
  }
  cancelled_ = false;
}

}  // namespace mptune::tuner
