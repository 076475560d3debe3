#pragma once

/// The connections of a communicator: a socket between each two members, which are threads or processes of one machine.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/emulation/machine/machine.h"
#include "tests/emulation/nccl/sockets.h"

namespace emulation {

/// What a member tells all others when they meet.
struct Introduction {
  int members = 0;
  int member = 0;
  int gpu = 0;
  int words[2] = {0, 0};  ///< of whoever makes the mesh
};

/// Bytes for or from a member. `kind` must be the same on both sides.
struct Message {
  enum class Way { send, receive };
  Way way = Way::send;
  int member = 0;
  void* address = nullptr;  ///< only read if it is sent
  std::size_t bytes = 0;
  std::uint32_t kind = 0;
};

class Mesh {
 public:
  /// Members with one `name` find each other.
  Mesh(std::string name, const Introduction& own) : name_(std::move(name)), own_(own) {}

  /// Blocks until all members are there. Throws NcclFailure, Stopped, MemberGone.
  void connect();

  [[nodiscard]] int members() const { return own_.members; }
  [[nodiscard]] int member() const { return own_.member; }
  [[nodiscard]] const std::string& name() const { return name_; }
  /// Of all members, by their number; after connect().
  [[nodiscard]] const std::vector<Introduction>& introductions() const { return introductions_; }

  /// Begins a piece of work: its exchanges follow each other in the time of the model, beginning now.
  void begin(Nanoseconds now) { now_ = now; }
  /// When the exchanges since then would be done on links of the settings.
  [[nodiscard]] Nanoseconds now() const { return now_; }

  /// Moves all messages at once; those with one member in their order. Returns when the last is handed over: a sent one may still be in the
  /// socket's buffer. Messages to oneself are not allowed. One thread at a time. Throws std::logic_error if the other side's message is
  /// another one, Stopped, and MemberGone after having moved the messages of the other members.
  /// `is_rest`: of messages that an exchange before has begun, so that they take no latency.
  void exchange(const std::vector<Message>& messages, bool is_rest = false);

  /// Ends connect() and exchange(), now and later; by any thread.
  void stop() noexcept { stop_.stop(); }
  /// Throws Stopped when that happens.
  void wait_for_stop() const;
  [[nodiscard]] bool somebody_is_gone() const { return gone_; }

 private:
  [[nodiscard]] double link_ns(int source, int destination, double bytes, bool is_rest) const;
  [[nodiscard]] Introduction meet(const Descriptor& socket) const;
  void place(Descriptor socket);

  std::string name_;
  Introduction own_;
  std::vector<Introduction> introductions_;
  std::vector<Descriptor> sockets_;
  StopSignal stop_;
  std::atomic<bool> gone_ = false;
  Nanoseconds now_ = 0;
};

}  // namespace emulation
