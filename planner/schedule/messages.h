#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/plan/plan.h"
#include "profiler/base/runtime.h"

namespace mptune::planner {

/// Two stages of which the first sends its outputs to the second; gradients come back unless `needs_gradient` is false.
struct MessageFlow {
  int front = 0;
  int back = 0;
  bool needs_gradient = true;
};

/// One step of what a device does under the rules of a runtime.
struct MessageStep {
  enum class Kind : std::uint8_t {
    compute,  ///< the device's action `action`
    post,     ///< says that it is ready to send or to receive these messages, and goes on
    wait,     ///< goes on when these messages have arrived, be they sent or received
  };
  Kind kind = Kind::compute;
  int action = -1;            ///< index in the device's row of the plan
  std::vector<int> messages;  ///< see Messages::id()
};

/// When the devices of a plan send and receive. A message moves when both of its ends have posted it: neither NCCL nor Gloo stores tensors
/// for a receiver that is not ready.
struct Messages {
  Runtime runtime = Runtime::mptune;
  int microbatches = 0;  ///< 0: none of this; stages send as this project's runtime does, which waits for nobody
  std::vector<MessageFlow> flows;
  std::vector<std::vector<MessageStep>> devices;
  /// True if a device's posts form one queue: the messages of a post move after those of the post before, sent or received.
  bool in_order = false;

  [[nodiscard]] int count() const { return 2 * static_cast<int>(flows.size()) * microbatches; }
  [[nodiscard]] int id(int flow, bool gradient, int microbatch) const {
    return (2 * flow + (gradient ? 1 : 0)) * microbatches + microbatch;
  }
  [[nodiscard]] int flow_of(int message) const { return message / microbatches / 2; }
  [[nodiscard]] bool is_gradient(int message) const { return message / microbatches % 2 == 1; }
  [[nodiscard]] int microbatch_of(int message) const { return message % microbatches; }
};

/// Returns when the plan's devices send and receive under the rules of `runtime`, which is not mptune: its senders wait for nobody.
///
/// megatron, a stage on each device (forward_backward_pipelining_without_interleaving). The message of an action and that of the next one
/// are posted together where a forward and a backward follow each other, and the device waits for both; else it first sends, then receives:
///
///     forward 3 | send output 3, receive gradient 0 | backward 0 | send gradient 0, receive input 4 | forward 4
///
/// deepspeed (TrainSchedule, p2p.py): one message after another, and the device waits for each. It sends first, but before a backward of
/// its steady phase it receives first.
///
/// torch, schedules naive, gpipe and 1f1b (schedules.py, ScheduleGPipe, Schedule1F1B): as megatron, but between two forwards or two
/// backwards nothing waits for the send until the next send, in gpipe until the last forward.
///
/// torch, other schedules (_PipelineScheduleRuntime, _add_send_recv): nothing waits for a send. The receiver posts as soon as the sender's
/// action stands in torch's order of all ranks' actions.
///
/// megatron, several stages on a device (overlapped communication, its default there): nothing waits for a send; a device posts what an
/// action reads before the action that precedes it.
///
/// Requires: a valid plan and schedule; flows by back stage. The devices may wait for each other in a circle; see deadlock_of().
[[nodiscard]] Messages messages_of(const Plan& plan, std::vector<MessageFlow> flows, Runtime runtime);

/// Returns when devices send and receive by the messages that torch's CSV names, such as "0SEND_F3" and "1RECV_F3", in its order, a device
/// with a queue for NCCL; an action waits for what it reads. A chain of stages; `plan`: of the actions of the same text. Nothing if the
/// text names no message. Throws Error that names the row for a message of a stage or micro-batch that the plan does not have.
[[nodiscard]] std::optional<Messages> messages_from_csv(const std::string& text, const Plan& plan, const std::string& where);

/// What walk() meets, each thing after those it waits for.
class MessageVisitor {
 public:
  virtual ~MessageVisitor() = default;
  virtual void compute(int device, int action) = 0;
  virtual void post(int device, int message) = 0;
  /// Both ends have posted the message. `after`: messages before it in the queues of its ends, on which it waits, too.
  virtual void move(int message, const std::vector<int>& after) = 0;
  virtual void wait(int device, int message) = 0;
};
/// Takes the devices through their steps, in turns, until each reaches its end or all of those left wait for each other. Returns for each
/// device how many steps it took.
[[nodiscard]] std::vector<std::size_t> walk(const Messages& messages, MessageVisitor& visitor);

/// Returns "" if every device reaches its end, else a clause about two devices: what each waits for, or what the second never does. `plan`:
/// the one that the messages were made of.
[[nodiscard]] std::string deadlock_of(const Plan& plan, const Messages& messages);

}  // namespace mptune::planner
