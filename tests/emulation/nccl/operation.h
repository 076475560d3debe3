#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tests/emulation/machine/machine.h"
#include "tests/emulation/nccl/communicator.h"
#include "tests/emulation/nccl/nccl_api.h"

namespace emulation {

/// What a call of NCCL asks a member to do.
struct Operation {
  enum class Kind { send, receive, all_reduce, reduce, broadcast, all_gather, reduce_scatter };
  Kind kind = Kind::send;
  const void* source = nullptr;
  void* destination = nullptr;
  std::size_t count = 0;  ///< numbers; of all_gather and reduce_scatter those of one member
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t reduction = ncclSum;
  int other = 0;  ///< the member to send to or to receive from; the root
  Stream* stream = nullptr;
  ScaledSum scaled{};  ///< of ncclRedOpCreatePreMulSum: the reduction may be destroyed once the call returns
};

/// Throws NcclFailure if the operation has arguments that NCCL refuses, or memory that the communicator's GPU can't use.
void check(const Communicator& communicator, const char* function, const Operation& operation);

/// As NCCL's kernels are called: "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)".
[[nodiscard]] std::string kernel_name(const Operation& operation);

/// Bytes that the member sends, or receives if those are more, as NCCL's rings move them.
[[nodiscard]] double moved_bytes(const Operation& operation, int members);

/// Memory that it reads and writes.
[[nodiscard]] std::vector<Range> uses_of(const Operation& operation, int members, int member);

/// Runs operations that were enqueued as one piece of work, on a stream's thread: collectives one after another, then all messages at once.
/// Returns when they are done or the communicator was aborted; throws std::logic_error if members don't fit together.
void run(Communicator& communicator, const std::vector<Operation>& operations);

}  // namespace emulation
