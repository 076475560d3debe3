#include "tuner/runtime/graph/channel.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace mptune::tuner {

namespace {

/// Where the tensors of a message go. A tensor that is in the message twice is copied once, and both places get the same copy.
class Places {
 public:
  explicit Places(const Tensors& tensors) {
    for (const at::Tensor& tensor : tensors) places_.push_back(tensor.defined() ? index_of(tensor) : -1);
  }

  [[nodiscard]] bool empty() const { return different_.empty(); }
  /// The tensors to copy, each once.
  [[nodiscard]] Tensors take() { return std::exchange(different_, {}); }
  [[nodiscard]] Tensors placed(const Tensors& copies) const {
    for (std::size_t i = 0; i < copies.size(); ++i) copies[i].set_requires_grad(requires_grad_[i]);
    Tensors tensors;
    for (const int place : places_) tensors.push_back(place < 0 ? at::Tensor() : copies[as_index(place)]);
    return tensors;
  }

 private:
  int index_of(const at::Tensor& tensor) {
    const auto same = std::ranges::find_if(different_, [&](const at::Tensor& other) { return other.is_same(tensor); });
    if (same != different_.end()) return static_cast<int>(same - different_.begin());
    different_.push_back(tensor);
    requires_grad_.push_back(tensor.requires_grad());
    return static_cast<int>(different_.size()) - 1;
  }

  std::vector<int> places_;  ///< per tensor of the message, in `different_`; -1: it is undefined
  Tensors different_;
  std::vector<bool> requires_grad_;
};

}  // namespace

MailboxChannel::MailboxChannel(int microbatches, Direction forward, Direction backward, std::function<void(std::exception_ptr)> failed)
    : directions_{forward, backward}, failed_(std::move(failed)), slots_(2 * as_index(microbatches)) {}

void MailboxChannel::send(MessageTag tag, Tensors tensors) {
  profiler::CopyLane* lane = direction_of(tag).lane;
  Slot& slot = slot_of(tag);
  slot.copy = 0;
  slot.read = nullptr;
  if (lane == nullptr)
    slot.read = deliver(tag, {std::move(tensors), nullptr});
  else
    slot.copy = copy(*lane, tag, std::move(tensors));
}

void MailboxChannel::await_sent(MessageTag tag) {
  const Slot& slot = slot_of(tag);
  if (slot.copy > 0) direction_of(tag).lane->await(slot.copy);
  wait_for(slot.read);
}

void MailboxChannel::observe(MessageTag tag, const Tensors& tensors, Time began, Time ended) const {
  if (!observer_) return;
  std::int64_t bytes = 0;
  for (const at::Tensor& copy : tensors) bytes += static_cast<std::int64_t>(copy.nbytes());
  observer_(tag, bytes, began, ended);
}

/// Returns the copy's number, or 0 if there was nothing to copy.
std::int64_t MailboxChannel::copy(profiler::CopyLane& lane, MessageTag tag, Tensors tensors, std::optional<Time> sent) {
  Places places(tensors);
  if (places.empty()) {
    (void)deliver(tag, {std::move(tensors), nullptr});
    return 0;
  }
  tensors = places.take();
  return lane.copy(
      std::move(tensors),
      [this, tag, sent, places = std::move(places)](profiler::CopyLane::Arrival arrival) {
        if (direction_of(tag).elsewhere) {
          (void)send_elsewhere(tag, {places.placed(arrival.tensors), std::move(arrival.there)}, arrival.began);
          return;
        }
        // The observer is called before delivery: the receiver may end the step as soon as it has its input.
        observe(tag, arrival.tensors, sent.value_or(arrival.began), arrival.ended);
        (void)deliver(tag, {places.placed(arrival.tensors), std::move(arrival.there)});
      },
      [this](std::exception_ptr error) { failed_(std::move(error)); });
}

/// Returns the moment after which sending no longer reads the tensors.
MomentPtr MailboxChannel::deliver(MessageTag tag, Message message) {
  const Direction& direction = direction_of(tag);
  if (direction.elsewhere) return send_elsewhere(tag, std::move(message), profiler::SteadyClock::now());
  Slot& slot = slot_of(tag);
  slot.message = std::move(message);
  slot.arrived = true;
  direction.receiver->ring();
  return nullptr;
}

MomentPtr MailboxChannel::send_elsewhere(MessageTag tag, Message message, Time began) {
  wait_for(message.there);
  return direction_of(tag).elsewhere(tag, std::move(message.tensors), began);
}

void MailboxChannel::arrive(MessageTag tag, Message message, Time began) {
  if (profiler::CopyLane* lane = direction_of(tag).lane; lane != nullptr) {
    (void)copy(*lane, tag, std::move(message.tensors), began);
    return;
  }
  const Tensors tensors = observer_ ? Places(message.tensors).take() : Tensors();
  const MomentPtr there = message.there;
  const Time came = profiler::SteadyClock::now();
  // The message is delivered before the GPU has it, so that the receiver queues its work meanwhile. The step ends once this thread has done
  // all its messages.
  (void)deliver(tag, std::move(message));
  if (!observer_) return;
  wait_for(there);
  observe(tag, tensors, began, there ? profiler::SteadyClock::now() : came);
}

Message MailboxChannel::receive(MessageTag tag) {
  direction_of(tag).receiver->wait([&] { return cancelled_ || arrived(tag); });
  return *try_receive(tag);
}

std::optional<Message> MailboxChannel::try_receive(MessageTag tag) {
  if (cancelled_) throw StepCancelled();
  if (!arrived(tag)) return std::nullopt;
  Slot& slot = slot_of(tag);
  slot.arrived = false;
  return std::exchange(slot.message, {});
}

bool MailboxChannel::arrived(MessageTag tag) {
  return slot_of(tag).arrived;
}

void MailboxChannel::cancel() {
  cancelled_ = true;
  for (const Direction& direction : directions_)
    if (direction.receiver != nullptr) direction.receiver->ring();
}

void MailboxChannel::reset() {
  for (Slot& slot : slots_) {
    slot.message = {};
    slot.arrived = false;
  }
  cancelled_ = false;
}

}  // namespace mptune::tuner
