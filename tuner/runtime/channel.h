#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "profiler/collect/host_collector.h"
#include "profiler/device/copy_lane.h"
#include "profiler/model/layer.h"

namespace mptune::tuner {

/// Identifies a message between two stages.
struct MessageTag {
  bool gradient = false;  ///< false: activations, front to back; true: gradients, back to front
  int microbatch = 0;
  auto operator<=>(const MessageTag&) const = default;
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

/// Carries tensors in both directions between a replica of a stage and a replica of the next one. send() never blocks, receive() waits. A
/// received tensor requires a gradient if the sent one did. An undefined tensor stays undefined at its index and is not copied.
class Channel {
 public:
  virtual ~Channel() = default;
  virtual void send(MessageTag tag, Tensors tensors) = 0;
  /// The tensors sent with `tag`, in the receiver's memory. Throws StepCancelled.
  [[nodiscard]] virtual Message receive(MessageTag tag) = 0;
  [[nodiscard]] virtual bool arrived(MessageTag tag) = 0;
  /// Wakes the receivers with StepCancelled until reset().
  virtual void cancel() = 0;
  /// Forgets what was sent. Requires: no copy under way.
  virtual void reset() = 0;
};

/// Copies through lanes. If both ends are on the same device, it passes the tensors on without a copy.
class InProcessChannel final : public Channel {
 public:
  /// Lanes of the two directions; both null for one device. `failed` gets the error of a failed copy, in the lane's thread.
  InProcessChannel(profiler::CopyLane* forward, profiler::CopyLane* backward, std::function<void(std::exception_ptr)> failed);

  void send(MessageTag tag, Tensors tensors) override;
  [[nodiscard]] Message receive(MessageTag tag) override;
  [[nodiscard]] bool arrived(MessageTag tag) override;
  void cancel() override;
  void reset() override;

  /// Called after every copy, in the lane's thread; null: no observer. Set it between steps only.
  using Observer =
      std::function<void(MessageTag, std::int64_t bytes, profiler::SteadyClock::time_point began, profiler::SteadyClock::time_point ended)>;
  void set_observer(Observer observer) { observer_ = std::move(observer); }

 private:
  void deliver(MessageTag tag, Message message);

  profiler::CopyLane* forward_;
  profiler::CopyLane* backward_;
  std::function<void(std::exception_ptr)> failed_;
  Observer observer_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<MessageTag, Message> arrived_;
  bool cancelled_ = false;
};

}  // namespace mptune::tuner
