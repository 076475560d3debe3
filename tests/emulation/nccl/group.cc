#include "tests/emulation/nccl/group.h"

#include <algorithm>
#include <future>
#include <utility>
#include <vector>

#include "tests/emulation/nccl/failure.h"
#include "tests/emulation/nccl/numbers.h"

namespace emulation {
namespace {

using Kind = Operation::Kind;

// NCCL's launches differ by size; what reads the records asks for no more than that there is a grid.
constexpr std::uint32_t kBlocks = 16, kThreads = 512;

struct Bundle {
  std::shared_ptr<Communicator> communicator;
  std::vector<Operation> operations;
};

struct Group {
  int depth = 0;
  std::vector<Bundle> bundles;  ///< one for each communicator
  std::vector<std::function<void()>> meetings;
};
thread_local Group group;

/// The only member's collectives are copies, if numbers change nothing on the way.
bool is_plain_copy(const Bundle& bundle) {
  if (bundle.communicator->mesh().members() > 1 || bundle.operations.size() > 1) return false;
  const Operation& operation = bundle.operations.front();
  return operation.kind != Kind::send && operation.kind != Kind::receive && operation.reduction < ncclNumOps;
}

Work copy_of(const Operation& operation) {
  Work work;
  work.kind = WorkKind::copy;
  work.name = "Memcpy DtoD";
  work.source = operation.source;
  work.destination = operation.destination;
  work.bytes = static_cast<double>(operation.count * bytes_of(operation.type));
  return work;
}

Work kernel_of(const Bundle& bundle) {
  const Mesh& mesh = bundle.communicator->mesh();
  Work work;
  work.kind = WorkKind::communication;
  work.name = intern(kernel_name(bundle.operations.front()));
  work.blocks[0] = kBlocks;
  work.threads[0] = kThreads;
  double sent = 0, received = 0;
  for (const Operation& operation : bundle.operations) {
    const double bytes = moved_bytes(operation, mesh.members());
    sent += operation.kind == Kind::receive ? 0 : bytes;
    received += operation.kind == Kind::send ? 0 : bytes;
    for (const Range& use : uses_of(operation, mesh.members(), mesh.member())) work.uses.push_back(use);
  }
  work.bytes = std::max(sent, received);
  work.compute = [communicator = bundle.communicator, operations = bundle.operations] { run(*communicator, operations); };
  return work;
}

std::vector<Stream*> streams_of(const Bundle& bundle) {
  std::vector<Stream*> streams;
  for (const Operation& operation : bundle.operations)
    if (std::find(streams.begin(), streams.end(), operation.stream) == streams.end()) streams.push_back(operation.stream);
  return streams;
}

/// Messages to oneself need both sides in the group.
void check_own_messages(const Bundle& bundle) {
  const int own = bundle.communicator->mesh().member();
  long balance = 0;
  for (const Operation& operation : bundle.operations)
    if (operation.other == own) balance += (operation.kind == Kind::send) - (operation.kind == Kind::receive);
  if (balance != 0)
    throw NcclFailure(ncclInvalidUsage, "a member sends to itself and does not receive in the same group, or the other way round");
}

void launch(const Bundle& bundle) {
  check_own_messages(bundle);
  if (!is_plain_copy(bundle)) return bundle.communicator->enqueue(streams_of(bundle), kernel_of(bundle));
  const Operation& operation = bundle.operations.front();
  if (operation.source != operation.destination) bundle.communicator->enqueue({operation.stream}, copy_of(operation));
}

/// Collectives of no numbers are none.
bool is_empty(const Operation& operation) {
  return operation.count == 0 && operation.kind != Kind::send && operation.kind != Kind::receive;
}

void run_at_once(const std::vector<std::function<void()>>& meetings) {
  std::vector<std::future<void>> running;
  for (const auto& meeting : meetings) running.push_back(std::async(std::launch::async, meeting));
  for (auto& one : running) one.wait();
  for (auto& one : running) one.get();
}

}  // namespace

void start_group() {
  ++group.depth;
}

void end_group() {
  if (group.depth == 0) throw NcclFailure(ncclInvalidUsage, "ncclGroupEnd: not in a group call.");
  if (--group.depth > 0) return;
  const Group all = std::exchange(group, {});
  run_at_once(all.meetings);
  for (const Bundle& bundle : all.bundles) launch(bundle);
}

void drop_group() {
  group = {};
}

void add_to_group(const std::shared_ptr<Communicator>& communicator, const Operation& operation) {
  if (is_empty(operation)) return;
  if (group.depth == 0) return launch({communicator, {operation}});
  auto& bundles = group.bundles;
  auto bundle = std::find_if(bundles.begin(), bundles.end(), [&](const Bundle& one) { return one.communicator == communicator; });
  if (bundle == bundles.end()) bundle = bundles.insert(bundles.end(), {communicator, {}});
  bundle->operations.push_back(operation);
}

void add_to_group(const std::function<void()>& meeting) {
  if (group.depth == 0) return meeting();
  group.meetings.push_back(meeting);
}

}  // namespace emulation
