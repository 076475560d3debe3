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

InProcessChannel::InProcessChannel(profiler::CopyLane* forward, profiler::CopyLane* backward,
                                   std::function<void(std::exception_ptr)> failed)
    : forward_(forward), backward_(backward), failed_(std::move(failed)) {}

void InProcessChannel::send(MessageTag tag, Tensors tensors) {
  profiler::CopyLane* lane = tag.gradient ? backward_ : forward_;
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
      failed_);
}

void InProcessChannel::deliver(MessageTag tag, Message message) {
  {
    const std::lock_guard lock(mutex_);
    arrived_[tag] = std::move(message);
  }
  changed_.notify_all();
}

Message InProcessChannel::receive(MessageTag tag) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return cancelled_ || arrived_.contains(tag); });
  if (cancelled_) throw StepCancelled();
  return std::move(arrived_.extract(tag).mapped());
}

bool InProcessChannel::arrived(MessageTag tag) {
  const std::lock_guard lock(mutex_);
  return arrived_.contains(tag);
}

void InProcessChannel::cancel() {
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
  }
  changed_.notify_all();
}

void InProcessChannel::reset() {
  const std::lock_guard lock(mutex_);
  arrived_.clear();
  cancelled_ = false;
}

}  // namespace mptune::tuner
