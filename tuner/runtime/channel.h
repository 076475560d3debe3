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

/// What a micro-batch's tensors are on their way between two stages.
struct MessageTag {
  bool gradient = false;  ///< false: activations, front to back; true: gradients, back to front
  int microbatch = 0;
  auto operator<=>(const MessageTag&) const = default;
};

/// Received tensors.
struct Message {
  Tensors tensors;
  MomentPtr there;  ///< the receiver reads them after this moment
};

/// Thrown by receive() when the step was cancelled by another thread.
struct StepCancelled : std::exception {
  [[nodiscard]] const char* what() const noexcept override { return "the step was given up"; }
};

/// Carries tensors between two neighbouring (stage, replica) pairs, both directions. send() never blocks, receive() waits. What arrives
/// requires a gradient where what was sent did; an undefined tensor keeps its place and costs nothing.
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

/// Copies through lanes, or hands over directly where both ends are one device.
class InProcessChannel final : public Channel {
 public:
  /// Lanes of the two directions; both null for one device. `failed` is told of a copy that failed, from the lane's thread.
  InProcessChannel(profiler::CopyLane* forward, profiler::CopyLane* backward, std::function<void(std::exception_ptr)> failed);

  void send(MessageTag tag, Tensors tensors) override;
  [[nodiscard]] Message receive(MessageTag tag) override;
  [[nodiscard]] bool arrived(MessageTag tag) override;
  void cancel() override;
  void reset() override;

  /// Called with every copy, from the lane's thread; null: nothing is called. Set between steps only.
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
