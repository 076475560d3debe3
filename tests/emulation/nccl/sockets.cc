#include "tests/emulation/nccl/sockets.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "tests/emulation/nccl/failure.h"

namespace emulation {
namespace {

constexpr int kBufferBytes = 1 << 20;  // the system may give less
constexpr int kRetryMilliseconds = 2;
constexpr int kMostWaiting = 64;

[[noreturn]] void fail(const std::string& what) {
  throw NcclFailure(ncclSystemError, what + ": " + std::strerror(errno));
}

Descriptor new_socket() {
  Descriptor made(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made.is_open()) fail("no local socket can be made");
  (void)setsockopt(made.number(), SOL_SOCKET, SO_SNDBUF, &kBufferBytes, sizeof kBufferBytes);
  return made;
}

struct Address {
  sockaddr_un text{};
  socklen_t bytes = 0;
};

Address address_of(const std::string& name) {
  Address address;
  address.text.sun_family = AF_UNIX;
  const std::size_t length = std::min(name.size(), sizeof address.text.sun_path - 1);
  std::memcpy(address.text.sun_path + 1, name.data(), length);
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return address;
}

bool goes_later() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

}  // namespace

Descriptor::~Descriptor() {
  if (is_open()) close(number_);
}

Descriptor::Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

StopSignal::StopSignal() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!event_.is_open()) fail("no event can be made");
}

void StopSignal::stop() noexcept {
  const std::uint64_t one = 1;
  if (write(event_.number(), &one, sizeof one) < 0) return;  // it is stopped already
}

void StopSignal::wait(std::vector<pollfd>& events, int milliseconds) const {
  events.push_back({event_.number(), POLLIN, 0});
  const int ready = poll(events.data(), events.size(), milliseconds);
  const bool stopped = ready > 0 && events.back().revents != 0;
  events.pop_back();
  if (stopped) throw Stopped();
  if (ready < 0 && errno != EINTR) fail("sockets can't be waited for");
}

Descriptor listen_at(const std::string& name) {
  Descriptor made = new_socket();
  const Address address = address_of(name);
  if (bind(made.number(), reinterpret_cast<const sockaddr*>(&address.text), address.bytes) != 0) {
    if (errno == EADDRINUSE) throw NcclFailure(ncclInvalidUsage, "two members of a communicator have the same rank");
    fail("a local socket gets no name");
  }
  if (listen(made.number(), kMostWaiting) != 0) fail("a local socket can't listen");
  return made;
}

Descriptor connect_to(const std::string& name, const StopSignal& stop) {
  const Address address = address_of(name);
  for (;;) {
    Descriptor made = new_socket();
    if (connect(made.number(), reinterpret_cast<const sockaddr*>(&address.text), address.bytes) == 0) return made;
    if (errno != ECONNREFUSED && errno != ENOENT && !goes_later()) fail("another member can't be reached");
    std::vector<pollfd> nothing;
    stop.wait(nothing, kRetryMilliseconds);
  }
}

Descriptor accept_from(const Descriptor& listening, const StopSignal& stop) {
  for (;;) {
    Descriptor made(accept4(listening.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (made.is_open()) {
      (void)setsockopt(made.number(), SOL_SOCKET, SO_SNDBUF, &kBufferBytes, sizeof kBufferBytes);
      return made;
    }
    if (!goes_later()) fail("no member can be accepted");
    std::vector<pollfd> arrivals{{listening.number(), POLLIN, 0}};
    stop.wait(arrivals, -1);
  }
}

std::size_t send_some(int socket, const void* head, std::size_t head_bytes, const void* body, std::size_t body_bytes) {
  std::array<iovec, 2> parts{{{const_cast<void*>(head), head_bytes}, {const_cast<void*>(body), body_bytes}}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  const ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL);
  if (sent >= 0) return static_cast<std::size_t>(sent);
  if (goes_later()) return 0;
  if (errno == EPIPE || errno == ECONNRESET) throw MemberGone();
  fail("a message can't be sent");
}

std::size_t receive_some(int socket, void* to, std::size_t bytes) {
  const ssize_t received = recv(socket, to, bytes, 0);
  if (received > 0) return static_cast<std::size_t>(received);
  if (received < 0 && goes_later()) return 0;
  if (received == 0 || errno == ECONNRESET) throw MemberGone();
  fail("a message can't be received");
}

}  // namespace emulation
