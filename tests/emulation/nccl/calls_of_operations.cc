// NCCL's functions that move numbers, and groups of them.
#include "tests/emulation/nccl/failure.h"
#include "tests/emulation/nccl/group.h"
#include "tests/emulation/nccl/last_error.h"
#include "tests/emulation/nccl/numbers.h"
#include "tests/emulation/nccl/operation.h"

namespace emulation {
namespace {

using Kind = Operation::Kind;

ncclResult_t enqueue(const char* function, ncclComm_t handle, Operation operation) {
  return guarded([&] {
    if (handle == nullptr) throw NcclFailure(ncclInvalidArgument, std::string(function) + " : comm argument is NULL");
    handle->communicator->check_ready();
    check(*handle->communicator, function, operation);
    if (operation.reduction >= ncclNumOps) operation.scaled = handle->communicator->scaled_sum(operation.reduction);
    add_to_group(handle->communicator, operation);
    return ncclSuccess;
  });
}

const char* behind(const void* begin, std::size_t bytes) {
  return static_cast<const char*>(begin) + bytes;
}

}  // namespace
}  // namespace emulation

using namespace emulation;

NCCL_FUNCTION ncclResult_t ncclSend(const void* source, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                                    NcclStream stream) {
  return enqueue("Send", comm, {Kind::send, source, nullptr, count, type, ncclSum, peer, stream_of(stream)});
}

NCCL_FUNCTION ncclResult_t ncclRecv(void* destination, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                                    NcclStream stream) {
  return enqueue("Recv", comm, {Kind::receive, nullptr, destination, count, type, ncclSum, peer, stream_of(stream)});
}

NCCL_FUNCTION ncclResult_t ncclAllReduce(const void* source, void* destination, std::size_t count, ncclDataType_t type,
                                         ncclRedOp_t reduction, ncclComm_t comm, NcclStream stream) {
  return enqueue("AllReduce", comm, {Kind::all_reduce, source, destination, count, type, reduction, 0, stream_of(stream)});
}

NCCL_FUNCTION ncclResult_t ncclReduce(const void* source, void* destination, std::size_t count, ncclDataType_t type, ncclRedOp_t reduction,
                                      int root, ncclComm_t comm, NcclStream stream) {
  return enqueue("Reduce", comm, {Kind::reduce, source, destination, count, type, reduction, root, stream_of(stream)});
}

NCCL_FUNCTION ncclResult_t ncclBroadcast(const void* source, void* destination, std::size_t count, ncclDataType_t type, int root,
                                         ncclComm_t comm, NcclStream stream) {
  return enqueue("Broadcast", comm, {Kind::broadcast, source, destination, count, type, ncclSum, root, stream_of(stream)});
}

NCCL_FUNCTION ncclResult_t ncclBcast(void* numbers, std::size_t count, ncclDataType_t type, int root, ncclComm_t comm, NcclStream stream) {
  return ncclBroadcast(numbers, numbers, count, type, root, comm, stream);
}

NCCL_FUNCTION ncclResult_t ncclAllGather(const void* source, void* destination, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                                         NcclStream stream) {
  return enqueue("AllGather", comm, {Kind::all_gather, source, destination, count, type, ncclSum, 0, stream_of(stream)});
}

NCCL_FUNCTION ncclResult_t ncclReduceScatter(const void* source, void* destination, std::size_t count, ncclDataType_t type,
                                             ncclRedOp_t reduction, ncclComm_t comm, NcclStream stream) {
  return enqueue("ReduceScatter", comm, {Kind::reduce_scatter, source, destination, count, type, reduction, 0, stream_of(stream)});
}

NCCL_FUNCTION ncclResult_t ncclGroupStart() {
  start_group();
  return ncclSuccess;
}

NCCL_FUNCTION ncclResult_t ncclGroupEnd() {
  return guarded([] {
    end_group();
    return ncclSuccess;
  });
}

NCCL_FUNCTION ncclResult_t ncclAlltoAll(const void* source, void* destination, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                                        NcclStream stream) {
  if (comm == nullptr) return ncclInvalidArgument;
  const std::size_t bytes = count * bytes_of(type);
  start_group();
  ncclResult_t result = ncclSuccess;
  for (int other = 0; other < comm->communicator->mesh().members() && result == ncclSuccess; ++other) {
    const std::size_t offset = static_cast<std::size_t>(other) * bytes;
    result = ncclSend(behind(source, offset), count, type, other, comm, stream);
    if (result == ncclSuccess) result = ncclRecv(const_cast<char*>(behind(destination, offset)), count, type, other, comm, stream);
  }
  if (result == ncclSuccess) return ncclGroupEnd();
  drop_group();
  return result;
}

NCCL_FUNCTION ncclResult_t ncclGroupSimulateEnd(void*) {
  drop_group();
  (void)not_emulated("ncclGroupSimulateEnd");
  return ncclInvalidUsage;
}

NCCL_FUNCTION ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* operation, void* scalar, ncclDataType_t type,
                                                    ncclScalarResidence_t residence, ncclComm_t comm) {
  return guarded([&] {
    if (operation == nullptr || scalar == nullptr || comm == nullptr || bytes_of(type) == 0)
      throw NcclFailure(ncclInvalidArgument, "ncclRedOpCreatePreMulSum : an argument is missing");
    ScaledSum sum;
    if (residence == ncclScalarDevice) sum.on_device = scalar;
    if (residence != ncclScalarDevice) sum.scalar.assign(behind(scalar, 0), behind(scalar, bytes_of(type)));
    *operation = comm->communicator->add(std::move(sum));
    return ncclSuccess;
  });
}

NCCL_FUNCTION ncclResult_t ncclRedOpDestroy(ncclRedOp_t operation, ncclComm_t comm) {
  return guarded([&] {
    if (comm == nullptr) throw NcclFailure(ncclInvalidArgument, "ncclRedOpDestroy : comm argument is NULL");
    comm->communicator->remove(operation);
    return ncclSuccess;
  });
}
