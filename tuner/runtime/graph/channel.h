#pragma once

#include <array>
#include <atomic>
#include <exception>
#include <functional>
#include <optional>
#include <vector>

#include "profiler/base/index.h"
#include "profiler/device/copy_lane.h"
#include "profiler/device/doorbell.h"
#include "profiler/model/layers/layer.h"
#include "profiler/trace/collect/host_collector.h"

namespace mptune::tuner {

/// Identifies a message between two stages.
struct MessageTag {
  bool gradient = false;  ///< false: activations, front to back; true: gradients, back to front
  int microbatch = 0;
};

/// Received tensors.
struct Message {
  Tensors tensors;
  MomentPtr there;  ///< the tensors may be read after this moment
};

/// Thrown by receive() when the step was cancelled by another thread.
struct StepCancelled : std::exception {
  [[nodiscard]] const char* what() const noexcept override { return "the step was given up"; }
};

/// Carries tensors in both directions between a replica of a stage and a replica of one that reads its outputs. A message is sent and
/// received once a step, and each end is used by one thread. send() never waits for the receiver. A received tensor requires a gradient if
/// the sent one did. An undefined tensor stays undefined at its index and is not copied.
class Channel {
 public:
  virtual ~Channel() = default;
  virtual void send(MessageTag tag, Tensors tensors) = 0;
  /// Blocks until nothing reads the tensors any more that were sent with `tag` in this step. Call it in the sender's thread. Returns at
  /// once where none were sent. Throws c10::Error if a device has failed.
  virtual void await_sent(MessageTag tag) = 0;
  /// Waits for the tensors sent with `tag` and returns them in the receiver's memory. Throws StepCancelled.
  [[nodiscard]] virtual Message receive(MessageTag tag) = 0;
  /// Does the same as receive() without waiting: returns nothing if the tensors have not arrived.
  [[nodiscard]] virtual std::optional<Message> try_receive(MessageTag tag) = 0;
  [[nodiscard]] virtual bool arrived(MessageTag tag) = 0;
  /// Wakes the receivers with StepCancelled until reset().
  virtual void cancel() = 0;
  /// Forgets what was sent. Requires: no copy is under way.
  virtual void reset() = 0;
};

/// A channel that copies through lanes. If both ends are on the same device, it passes the tensors on without a copy. One end may be in
/// another process.
class MailboxChannel final : public Channel {
 public:
  using Time = profiler::SteadyClock::time_point;
  /// One direction. Both pointers outlive the channel.
  struct Direction {
    profiler::CopyLane* lane = nullptr;  ///< null: both ends are on one device, or the sender is in another process
    profiler::Doorbell* receiver =
        nullptr;  ///< of the receiving device: rung when a message arrives, and by cancel(); null: the device is in another process
    /// Sends to a receiver in another process, in the thread that copied; empty where the receiver is in this process. `began`: when the
    /// message began. Returns the moment after which nothing reads the tensors.
    std::function<MomentPtr(MessageTag, Tensors, Time began)> elsewhere = nullptr;
  };
  /// `failed` gets the error of a failed copy, in the thread that copied.
  MailboxChannel(int microbatches, Direction forward, Direction backward, std::function<void(std::exception_ptr)> failed);

  void send(MessageTag tag, Tensors tensors) override;
  void await_sent(MessageTag tag) override;
  [[nodiscard]] Message receive(MessageTag tag) override;
  [[nodiscard]] std::optional<Message> try_receive(MessageTag tag) override;
  [[nodiscard]] bool arrived(MessageTag tag) override;
  void cancel() override;
  void reset() override;
  /// Takes a message that has come from another process. `began` is on the sender's clock. One thread calls this for a direction.
  void arrive(MessageTag tag, Message message, Time began);

  /// Called after every copy, in the thread that copied; null: no observer. Set it between steps only. A message between processes is one
  /// copy, which the receiver observes: `began` is on the sender's clock.
  using Observer = std::function<void(MessageTag, std::int64_t bytes, Time began, Time ended)>;
  void set_observer(Observer observer) { observer_ = std::move(observer); }

 private:
  /// Where a message waits for its receiver. The receiver touches `message` after `arrived`, the sender before.
  struct Slot {
    std::atomic<bool> arrived{false};
    Message message;
    std::int64_t copy = 0;  ///< number of the lane's copy; used by the sender's thread only
    MomentPtr read;         ///< without a lane, the end of what reads the tensors; used by the sender's thread only
  };
  [[nodiscard]] const Direction& direction_of(MessageTag tag) const { return directions_[tag.gradient ? 1 : 0]; }
  [[nodiscard]] Slot& slot_of(MessageTag tag) { return slots_[2 * as_index(tag.microbatch) + (tag.gradient ? 1 : 0)]; }
  /// `sent`: when another process began to send the message; empty for a message of this process.
  std::int64_t copy(profiler::CopyLane& lane, MessageTag tag, Tensors tensors, std::optional<Time> sent = {});
  void observe(MessageTag tag, const Tensors& tensors, Time began, Time ended) const;
  MomentPtr deliver(MessageTag tag, Message message);
  MomentPtr send_elsewhere(MessageTag tag, Message message, Time began);

  std::array<Direction, 2> directions_;  ///< forward, backward
  std::function<void(std::exception_ptr)> failed_;
  Observer observer_;
  std::vector<Slot> slots_;  ///< per micro-batch: its activations, its gradients
  std::atomic<bool> cancelled_{false};
};

}  // namespace mptune::tuner
