// The work of collectives and messages. Sums: every member sums a part of the numbers, in the order of the members, so that all get the
// same bits.
#include <algorithm>
#include <cstring>

#include "tests/emulation/nccl/failure.h"
#include "tests/emulation/nccl/last_error.h"
#include "tests/emulation/nccl/numbers.h"
#include "tests/emulation/nccl/operation.h"
#include "tests/emulation/nccl/reduction.h"

namespace emulation {
namespace {

using Kind = Operation::Kind;
using Way = Message::Way;

// Numbers are reduced in pieces, which need memory of the host for each member.
constexpr std::size_t kPieceBytes = std::size_t{1} << 22U;

char* at(void* begin, std::size_t bytes) {
  return static_cast<char*>(begin) + bytes;
}
char* at(const void* begin, std::size_t bytes) {
  return const_cast<char*>(static_cast<const char*>(begin)) + bytes;
}

std::uint32_t message_kind(const Operation& operation, std::uint32_t phase) {
  if (operation.kind == Kind::send || operation.kind == Kind::receive) return 0;
  return static_cast<std::uint32_t>(operation.kind) << 16U | static_cast<std::uint32_t>(operation.type) << 8U | phase;
}

/// One collective of a member.
class Collective {
 public:
  Collective(Communicator& communicator, const Operation& operation)
      : communicator_(communicator), mesh_(communicator.mesh()), operation_(operation), number_(bytes_of(operation.type)) {}

  void run() {
    switch (operation_.kind) {
      case Kind::all_reduce:
        return all_reduce();
      case Kind::reduce:
        return reduce();
      case Kind::broadcast:
        return broadcast();
      case Kind::all_gather:
        return all_gather();
      default:
        return reduce_scatter();
    }
  }

 private:
  [[nodiscard]] int members() const { return mesh_.members(); }
  [[nodiscard]] int own() const { return mesh_.member(); }
  [[nodiscard]] std::size_t bytes() const { return operation_.count * number_; }

  template <class Add>
  void exchange_with_others(std::uint32_t phase, bool is_rest, const Add& add) {
    std::vector<Message> messages;
    for (int other = 0; other < members(); ++other)
      if (other != own()) add(messages, other);
    for (Message& message : messages) message.kind = message_kind(operation_, phase);
    mesh_.exchange(messages, is_rest);
  }

  /// Sends count numbers at `source(other)` to each other member, gets theirs, and returns the reduced numbers of this one.
  template <class Source>
  std::vector<char> reduce_parts(const Source& source, const std::vector<std::size_t>& counts, bool is_rest) {
    const std::size_t count = counts[static_cast<std::size_t>(own())], size = count * number_;
    std::vector<char> received(size * static_cast<std::size_t>(members())), result(size);
    std::vector<const void*> inputs(static_cast<std::size_t>(members()), source(own()));
    exchange_with_others(0, is_rest, [&](std::vector<Message>& messages, int other) {
      const auto index = static_cast<std::size_t>(other);
      inputs[index] = received.data() + index * size;
      messages.push_back({Way::send, other, source(other), counts[index] * number_, 0});
      messages.push_back({Way::receive, other, received.data() + index * size, size, 0});
    });
    Reduction(operation_, members()).reduce(inputs, result.data(), count);
    return result;
  }

  void all_reduce() {
    const std::size_t piece = kPieceBytes / number_;
    for (std::size_t first = 0; first < operation_.count; first += piece) all_reduce(first, std::min(piece, operation_.count - first));
  }

  void all_reduce(std::size_t first, std::size_t count) {
    const auto all = static_cast<std::size_t>(members());
    const auto part = [&](std::size_t member) { return first + count * member / all; };
    std::vector<std::size_t> counts(all);
    for (std::size_t i = 0; i < all; ++i) counts[i] = part(i + 1) - part(i);
    const auto offset = [&](int member) { return part(static_cast<std::size_t>(member)) * number_; };
    const std::vector<char> sum = reduce_parts([&](int other) { return at(operation_.source, offset(other)); }, counts, first > 0);
    std::memcpy(at(operation_.destination, offset(own())), sum.data(), sum.size());
    exchange_with_others(1, first > 0, [&](std::vector<Message>& messages, int other) {
      messages.push_back({Way::send, other, at(operation_.destination, offset(own())), sum.size(), 0});
      messages.push_back(
          {Way::receive, other, at(operation_.destination, offset(other)), counts[static_cast<std::size_t>(other)] * number_, 0});
    });
  }

  void reduce_scatter() {
    const std::size_t piece = kPieceBytes / number_;
    for (std::size_t first = 0; first < operation_.count; first += piece) {
      const std::vector<std::size_t> counts(static_cast<std::size_t>(members()), std::min(piece, operation_.count - first));
      const auto source = [&](int other) { return at(operation_.source, static_cast<std::size_t>(other) * bytes() + first * number_); };
      const std::vector<char> sum = reduce_parts(source, counts, first > 0);
      std::memcpy(at(operation_.destination, first * number_), sum.data(), sum.size());
    }
  }

  void reduce() {
    const std::size_t piece = kPieceBytes / number_;
    for (std::size_t first = 0; first < operation_.count; first += piece) {
      std::vector<std::size_t> counts(static_cast<std::size_t>(members()), 0);
      counts[static_cast<std::size_t>(operation_.other)] = std::min(piece, operation_.count - first);
      const std::vector<char> sum = reduce_parts([&](int) { return at(operation_.source, first * number_); }, counts, first > 0);
      if (own() == operation_.other) std::memcpy(at(operation_.destination, first * number_), sum.data(), sum.size());
    }
  }

  void broadcast() {
    const bool is_root = own() == operation_.other;
    exchange_with_others(0, false, [&](std::vector<Message>& messages, int other) {
      if (is_root) messages.push_back({Way::send, other, at(operation_.source, 0), bytes(), 0});
      if (other == operation_.other) messages.push_back({Way::receive, other, operation_.destination, bytes(), 0});
    });
    if (is_root) std::memmove(operation_.destination, operation_.source, bytes());
  }

  void all_gather() {
    std::memmove(at(operation_.destination, static_cast<std::size_t>(own()) * bytes()), operation_.source, bytes());
    exchange_with_others(0, false, [&](std::vector<Message>& messages, int other) {
      messages.push_back({Way::send, other, at(operation_.destination, static_cast<std::size_t>(own()) * bytes()), bytes(), 0});
      messages.push_back({Way::receive, other, at(operation_.destination, static_cast<std::size_t>(other) * bytes()), bytes(), 0});
    });
  }

  Communicator& communicator_;
  Mesh& mesh_;
  const Operation& operation_;
  std::size_t number_;  ///< bytes of one
};

/// What a member sends to itself, in order.
void copy_own(const std::vector<Operation>& sent, const std::vector<Operation>& received) {
  for (std::size_t i = 0; i < std::min(sent.size(), received.size()); ++i)
    std::memmove(received[i].destination, sent[i].source, sent[i].count * bytes_of(sent[i].type));
}

void run_messages(Mesh& mesh, const std::vector<Operation>& operations) {
  std::vector<Message> messages;
  std::vector<Operation> sent, received;
  for (const Operation& operation : operations) {
    if (operation.kind != Kind::send && operation.kind != Kind::receive) continue;
    const bool sends = operation.kind == Kind::send;
    if (operation.other == mesh.member())
      (sends ? sent : received).push_back(operation);
    else
      messages.push_back({sends ? Way::send : Way::receive, operation.other, sends ? at(operation.source, 0) : at(operation.destination, 0),
                          operation.count * bytes_of(operation.type), message_kind(operation, 0)});
  }
  copy_own(sent, received);
  if (!messages.empty()) mesh.exchange(messages);
}

}  // namespace

void run(Communicator& communicator, const std::vector<Operation>& operations) {
  Mesh& mesh = communicator.mesh();
  mesh.begin(begin_of_work());
  try {
    try {
      for (const Operation& operation : operations)
        if (operation.kind != Kind::send && operation.kind != Kind::receive) Collective(communicator, operation).run();
      run_messages(mesh, operations);
      end_work_at(mesh.now());
    } catch (const MemberGone&) {
      // As NCCL's kernel, which knows nothing of other processes' ends.
      set_last_error({ncclRemoteError, "another member's process is gone, or it has aborted the communicator"});
      mesh.wait_for_stop();
    }
  } catch (const Stopped&) {
  }
}

}  // namespace emulation
