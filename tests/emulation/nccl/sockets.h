#pragma once

#include <poll.h>

#include <cstddef>
#include <string>
#include <vector>

namespace emulation {

/// A file descriptor, closed with it.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] bool is_open() const { return number_ >= 0; }

 private:
  int number_ = -1;
};

/// Ends waiting in poll(), now and later; by any thread.
class StopSignal {
 public:
  StopSignal();
  void stop() noexcept;
  /// Waits for one of `events`, at most `milliseconds` (-1: for ever). Throws Stopped.
  void wait(std::vector<pollfd>& events, int milliseconds) const;

 private:
  Descriptor event_;
};

/// Local stream sockets in the abstract name space: a name is free again when its process ends. They don't block. Throw NcclFailure.
[[nodiscard]] Descriptor listen_at(const std::string& name);
/// Waits until somebody listens there.
[[nodiscard]] Descriptor connect_to(const std::string& name, const StopSignal& stop);
[[nodiscard]] Descriptor accept_from(const Descriptor& listening, const StopSignal& stop);

/// Sends or receives what goes at once; returns the number of bytes. Throws MemberGone if the other side is closed.
[[nodiscard]] std::size_t send_some(int socket, const void* head, std::size_t head_bytes, const void* body, std::size_t body_bytes);
[[nodiscard]] std::size_t receive_some(int socket, void* to, std::size_t bytes);

}  // namespace emulation
