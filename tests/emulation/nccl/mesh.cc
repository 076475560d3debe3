#include "tests/emulation/nccl/mesh.h"

#include <algorithm>
#include <stdexcept>

#include "tests/emulation/nccl/failure.h"

namespace emulation {
namespace {

/// Comes before each message.
struct Head {
  std::uint32_t kind = 0;
  std::uint32_t unused = 0;
  std::uint64_t bytes = 0;
  Nanoseconds began = 0;  ///< the sender's exchange, in the time of the model
};

/// The messages for, or from, one member.
struct Queue {
  int socket = -1;
  int member = 0;
  std::vector<Message> messages;
  std::size_t current = 0;
  std::size_t done = 0;   ///< bytes of the current message, its head included
  Head head;              ///< of the current message
  Nanoseconds began = 0;  ///< the sender's exchange
};

bool is_finished(const Queue& queue) {
  return queue.current == queue.messages.size();
}

void send_what_goes(Queue& queue) {
  while (!is_finished(queue)) {
    const Message& message = queue.messages[queue.current];
    queue.head = {message.kind, 0, message.bytes, queue.began};
    const std::size_t head_done = std::min(queue.done, sizeof(Head)), body_done = queue.done - head_done;
    const std::size_t sent = send_some(queue.socket, reinterpret_cast<const char*>(&queue.head) + head_done, sizeof(Head) - head_done,
                                       static_cast<const char*>(message.address) + body_done, message.bytes - body_done);
    if (sent == 0) return;
    queue.done += sent;
    if (queue.done < sizeof(Head) + message.bytes) continue;
    queue.done = 0;
    ++queue.current;
  }
}

void check(const Queue& queue, const Message& message, const std::string& mesh) {
  const std::string what = "NCCL: communicator " + mesh + ": member " + std::to_string(queue.member) + " ";
  if (queue.head.kind != message.kind) throw std::logic_error(what + "runs another operation than this one waits for");
  if (queue.head.bytes != message.bytes)
    throw std::logic_error(what + "sends " + std::to_string(queue.head.bytes) + " bytes, and this one receives " +
                           std::to_string(message.bytes));
}

void receive_what_is_there(Queue& queue, const std::string& mesh) {
  while (!is_finished(queue)) {
    const Message& message = queue.messages[queue.current];
    if (queue.done < sizeof(Head)) {
      const std::size_t received = receive_some(queue.socket, reinterpret_cast<char*>(&queue.head) + queue.done, sizeof(Head) - queue.done);
      if (received == 0) return;
      queue.done += received;
      if (queue.done < sizeof(Head)) continue;
      check(queue, message, mesh);
      queue.began = std::max(queue.began, queue.head.began);
    }
    if (const std::size_t body = queue.done - sizeof(Head); body < message.bytes) {
      const std::size_t received = receive_some(queue.socket, static_cast<char*>(message.address) + body, message.bytes - body);
      if (received == 0) return;
      queue.done += received;
    }
    if (queue.done < sizeof(Head) + message.bytes) continue;
    queue.done = 0;
    ++queue.current;
  }
}

double bytes_in(const Queue& queue) {
  double bytes = 0;
  for (const Message& message : queue.messages) bytes += static_cast<double>(message.bytes);
  return bytes;
}

std::vector<Queue> queues_of(const std::vector<Message>& messages, Message::Way way, const std::vector<Descriptor>& sockets,
                             Nanoseconds began) {
  std::vector<Queue> queues(sockets.size());
  for (const Message& message : messages) {
    if (message.way != way) continue;
    Queue& queue = queues.at(static_cast<std::size_t>(message.member));
    queue.socket = sockets[static_cast<std::size_t>(message.member)].number();
    queue.member = message.member;
    queue.began = began;
    queue.messages.push_back(message);
  }
  std::erase_if(queues, [](const Queue& queue) { return queue.messages.empty(); });
  return queues;
}

/// The sockets that can go on, with what for.
std::vector<pollfd> events_of(const std::vector<Queue>& outgoing, const std::vector<Queue>& incoming) {
  std::vector<pollfd> events;
  for (const Queue& queue : outgoing)
    if (!is_finished(queue)) events.push_back({queue.socket, POLLOUT, 0});
  for (const Queue& queue : incoming)
    if (!is_finished(queue)) events.push_back({queue.socket, POLLIN, 0});
  return events;
}

/// Calls `advance` of each queue; those of members that are gone end. Returns false if there are such.
template <class Advance>
bool advance_all(std::vector<Queue>& queues, const Advance& advance) {
  bool all_there = true;
  for (Queue& queue : queues) try {
      advance(queue);
    } catch (const MemberGone&) {
      queue.current = queue.messages.size();
      all_there = false;
    }
  return all_there;
}

}  // namespace

void Mesh::connect() {
  const auto name_of = [this](int member) { return name_ + "-" + std::to_string(member); };
  const Descriptor listening = listen_at(name_of(own_.member));
  introductions_.assign(static_cast<std::size_t>(own_.members), {});
  introductions_[static_cast<std::size_t>(own_.member)] = own_;
  sockets_.resize(static_cast<std::size_t>(own_.members));
  for (int lower = 0; lower < own_.member; ++lower) place(connect_to(name_of(lower), stop_));
  for (int higher = own_.member + 1; higher < own_.members; ++higher) place(accept_from(listening, stop_));
}

Introduction Mesh::meet(const Descriptor& socket) const {
  Introduction other;
  for (std::size_t sent = 0, received = 0; sent < sizeof own_ || received < sizeof other;) {
    std::vector<pollfd> event{{socket.number(), static_cast<short>(sent < sizeof own_ ? POLLOUT : POLLIN), 0}};
    stop_.wait(event, -1);
    if (sent < sizeof own_)
      sent += send_some(socket.number(), reinterpret_cast<const char*>(&own_) + sent, sizeof own_ - sent, nullptr, 0);
    else
      received += receive_some(socket.number(), reinterpret_cast<char*>(&other) + received, sizeof other - received);
  }
  return other;
}

void Mesh::place(Descriptor socket) {
  const Introduction other = meet(socket);
  if (other.members != own_.members)
    throw NcclFailure(ncclInvalidArgument, "the members of a communicator were given different numbers of ranks");
  const auto member = static_cast<std::size_t>(other.member);
  introductions_.at(member) = other;
  sockets_.at(member) = std::move(socket);
}

double Mesh::link_ns(int source, int destination, double bytes, bool is_rest) const {
  const int from = introductions_[static_cast<std::size_t>(source)].gpu, to = introductions_[static_cast<std::size_t>(destination)].gpu;
  const Nanoseconds latency = is_rest ? link_time(from, to, 0).value_or(0) : 0;
  return static_cast<double>(link_time(from, to, bytes).value_or(0) - latency);
}

void Mesh::wait_for_stop() const {
  for (;;) {
    std::vector<pollfd> nothing;
    stop_.wait(nothing, -1);
  }
}

void Mesh::exchange(const std::vector<Message>& messages, bool is_rest) {
  std::vector<Queue> outgoing = queues_of(messages, Message::Way::send, sockets_, now_);
  std::vector<Queue> incoming = queues_of(messages, Message::Way::receive, sockets_, now_);
  bool all_there = true;
  for (;;) {
    all_there &= advance_all(outgoing, send_what_goes);
    all_there &= advance_all(incoming, [this](Queue& queue) { receive_what_is_there(queue, name_); });
    if (!all_there) gone_ = true;
    std::vector<pollfd> events = events_of(outgoing, incoming);
    if (events.empty()) break;
    stop_.wait(events, -1);
  }
  if (!all_there) throw MemberGone();
  double sending = 0, receiving = 0;
  for (const Queue& queue : outgoing) sending += link_ns(own_.member, queue.member, bytes_in(queue), is_rest);
  for (const Queue& queue : incoming) {
    receiving += link_ns(queue.member, own_.member, bytes_in(queue), is_rest);
    now_ = std::max(now_, queue.began);
  }
  now_ += static_cast<Nanoseconds>(std::max(sending, receiving));
}

}  // namespace emulation
