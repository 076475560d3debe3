#include "tests/emulation/nccl/operation.h"

#include <algorithm>

#include "tests/emulation/nccl/failure.h"
#include "tests/emulation/nccl/numbers.h"

namespace emulation {
namespace {

using Kind = Operation::Kind;

constexpr const char* kArguments = "(ncclDevKernelArgsStorage<4096ul>)";

bool is_message(const Operation& operation) {
  return operation.kind == Kind::send || operation.kind == Kind::receive;
}

bool has_root(const Operation& operation) {
  return is_message(operation) || operation.kind == Kind::reduce || operation.kind == Kind::broadcast;
}

bool reduces(const Operation& operation) {
  return operation.kind == Kind::all_reduce || operation.kind == Kind::reduce || operation.kind == Kind::reduce_scatter;
}

/// A kernel that uses other memory would be an illegal access, or the driver's slow way that nobody means.
void check_memory(const Communicator& communicator, const std::string& function, const Range& use) {
  if (use.bytes == 0) return;
  const auto refuse = [&](const std::string& what) { throw NcclFailure(ncclInvalidArgument, function + " : " + what); };
  const std::optional<Block> block = block_of(use.begin);
  if (!block || block->kind == MemoryKind::pageable) refuse("a buffer is not memory of a GPU");
  if (block->kind == MemoryKind::device && block->gpu != communicator.gpu())
    refuse("a buffer allocated on device " + std::to_string(block->gpu) + ", expected " + std::to_string(communicator.gpu()));
  if (reinterpret_cast<std::uintptr_t>(use.begin) + use.bytes > block->begin + block->bytes) refuse("a buffer is smaller than its count");
}

std::size_t size_of(const Operation& operation) {
  return operation.count * bytes_of(operation.type);
}

}  // namespace

void check(const Communicator& communicator, const char* function, const Operation& operation) {
  const std::string name = function;
  const Mesh& mesh = communicator.mesh();
  if (bytes_of(operation.type) == 0) throw NcclFailure(ncclInvalidArgument, name + " : invalid type " + std::to_string(operation.type));
  if (has_root(operation) && (operation.other < 0 || operation.other >= mesh.members()))
    throw NcclFailure(ncclInvalidArgument, name + " : invalid root " + std::to_string(operation.other) + " (root should be in the 0.." +
                                               std::to_string(mesh.members()) + " range)");
  if (reduces(operation) && operation.reduction >= ncclNumOps) (void)communicator.scaled_sum(operation.reduction);
  if (operation.stream == nullptr) throw NcclFailure(ncclInvalidArgument, name + " : there is no such stream");
  if (facts_of(*operation.stream).gpu != communicator.gpu())
    throw NcclFailure(ncclInvalidArgument, name + " : the stream is of another GPU than the communicator");
  for (const Range& use : uses_of(operation, mesh.members(), mesh.member())) check_memory(communicator, name, use);
}

std::string kernel_name(const Operation& operation) {
  const std::string sum = std::string(name_of(operation.reduction)) + "_" + name_of(operation.type);
  switch (operation.kind) {
    case Kind::all_reduce:
      return "ncclDevKernel_AllReduce_" + sum + "_RING_LL" + kArguments;
    case Kind::reduce:
      return "ncclDevKernel_Reduce_" + sum + "_RING_LL" + kArguments;
    case Kind::reduce_scatter:
      return "ncclDevKernel_ReduceScatter_" + sum + "_RING_LL" + kArguments;
    case Kind::broadcast:
      return std::string("ncclDevKernel_Broadcast_RING_LL") + kArguments;
    case Kind::all_gather:
      return std::string("ncclDevKernel_AllGather_RING_LL") + kArguments;
    default:
      return std::string("ncclDevKernel_SendRecv") + kArguments;
  }
}

double moved_bytes(const Operation& operation, int members) {
  const auto bytes = static_cast<double>(size_of(operation));
  const double others = members - 1;
  switch (operation.kind) {
    case Kind::all_reduce:
      return 2 * bytes * others / members;
    case Kind::all_gather:
    case Kind::reduce_scatter:
      return bytes * others;
    default:
      return bytes;
  }
}

std::vector<Range> uses_of(const Operation& operation, int members, int member) {
  const std::size_t bytes = size_of(operation), all = bytes * static_cast<std::size_t>(members);
  const bool is_root = operation.other == member;
  const Range read{operation.source, bytes, false}, written{operation.destination, bytes, true};
  switch (operation.kind) {
    case Kind::send:
      return {read};
    case Kind::receive:
      return {written};
    case Kind::all_reduce:
      return {read, written};
    case Kind::reduce:
    case Kind::broadcast:
      break;
    case Kind::all_gather:
      return {read, {operation.destination, all, true}};
    case Kind::reduce_scatter:
      return {{operation.source, all, false}, written};
  }
  if (operation.kind == Kind::reduce) return is_root ? std::vector<Range>{read, written} : std::vector<Range>{read};
  return is_root ? (operation.source == operation.destination ? std::vector<Range>{read} : std::vector<Range>{read, written})
                 : std::vector<Range>{written};
}

}  // namespace emulation
