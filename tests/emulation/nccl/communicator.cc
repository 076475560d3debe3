#include "tests/emulation/nccl/communicator.h"

#include <algorithm>
#include <utility>

#include "tests/emulation/machine/memory.h"
#include "tests/emulation/machine/stream.h"
#include "tests/emulation/nccl/failure.h"
#include "tests/emulation/nccl/last_error.h"

#include <cupti_driver_cbid.h>

namespace emulation {
namespace {

void check(Status status, const char* what) {
  if (status != 0) throw NcclFailure(ncclUnhandledCudaError, std::string(what) + " gave CUDA error " + std::to_string(status));
}

}  // namespace

Communicator::Communicator(std::string name, int members, int member, bool blocking)
    : mesh_(std::move(name), {members, member, current_gpu()}), gpu_(current_gpu()), blocking_(blocking) {}

Communicator::~Communicator() {
  end_connecting();
  // What frees memory must not wait for other work of the GPU, which may wait for the thread that ends this communicator.
  if (buffers_ != nullptr) std::thread([buffers = buffers_] { (void)free_device(buffers); }).detach();
}

void Communicator::meet_all() {
  const auto bytes = static_cast<std::size_t>(setting("NCCL_BUFFERS", 0));
  if (bytes > 0) check(allocate_device(gpu_, bytes, &buffers_), "taking NCCL's buffers");
  mesh_.connect();
  for (const Introduction& other : mesh_.introductions())
    if (other.member != mesh_.member() && other.gpu == gpu_)
      throw NcclFailure(ncclInvalidUsage, "Duplicate GPU detected : rank " + std::to_string(mesh_.member()) + " and rank " +
                                              std::to_string(other.member) + " both on CUDA device " + std::to_string(gpu_));
}

void Communicator::connect() {
  try {
    meet_all();
    state_ = ncclSuccess;
  } catch (const NcclFailure& failure) {
    state_ = failure.code();
    throw;
  } catch (const MemberGone&) {
    state_ = ncclRemoteError;
    throw NcclFailure(ncclRemoteError, "another member is gone while the communicator is made");
  } catch (const Stopped&) {
    state_ = ncclInternalError;
    throw NcclFailure(ncclInternalError, "the communicator was aborted while it was made");
  }
}

void Communicator::connect_behind() {
  connecting_ = std::thread([this] {
    try {
      connect();
    } catch (const NcclFailure& failure) {
      set_last_error(failure);
    }
  });
}

void Communicator::end_connecting() {
  if (!connecting_.joinable()) return;
  mesh_.stop();
  connecting_.join();
}

ncclResult_t Communicator::async_error() const {
  const ncclResult_t state = state_;
  return state == ncclSuccess && mesh_.somebody_is_gone() ? ncclRemoteError : state;
}

void Communicator::check_ready() const {
  if (state_ == ncclInProgress)
    throw NcclFailure(ncclInvalidArgument, "Attempt to use communicator before the previous operation returned ncclSuccess");
  if (state_ != ncclSuccess) throw NcclFailure(state_, "the communicator could not be made");
}

void Communicator::enqueue(const std::vector<Stream*>& streams, Work work) {
  const std::lock_guard lock(mutex_);
  Stream& first = *streams.front();
  if (last_ && last_stream_ != &first) wait_for_mark(first, last_);
  for (Stream* stream : streams)
    if (stream != &first) wait_for_mark(first, record(*stream, 0));
  {
    ApiCall call(Domain::driver, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx);
    check(call.end(submit(first, std::move(work))), "launching a kernel");
  }
  last_ = record(first, 0);
  last_stream_ = &first;
  for (Stream* stream : streams)
    if (stream != &first) wait_for_mark(*stream, last_);
}

void Communicator::wait_for_all() {
  std::shared_ptr<Mark> last;
  {
    const std::lock_guard lock(mutex_);
    last = last_;
  }
  if (last) check(host_waits_for(*last), "waiting for the communicator's kernels");
}

void Communicator::abort() {
  mesh_.stop();
  end_connecting();
  wait_for_all();
}

ncclRedOp_t Communicator::add(ScaledSum sum) {
  const std::lock_guard lock(mutex_);
  sum.in_use = true;
  auto place = std::find_if(sums_.begin(), sums_.end(), [](const ScaledSum& other) { return !other.in_use; });
  if (place == sums_.end()) place = sums_.insert(sums_.end(), ScaledSum());
  *place = std::move(sum);
  return static_cast<ncclRedOp_t>(ncclNumOps + (place - sums_.begin()));
}

ScaledSum Communicator::scaled_sum(ncclRedOp_t operation) const {
  const std::lock_guard lock(mutex_);
  const auto index = static_cast<std::size_t>(operation) - ncclNumOps;
  if (operation < ncclNumOps || index >= sums_.size() || !sums_[index].in_use)
    throw NcclFailure(ncclInvalidArgument, "there is no such reduction operation");
  return sums_[index];
}

void Communicator::remove(ncclRedOp_t operation) {
  (void)scaled_sum(operation);
  const std::lock_guard lock(mutex_);
  sums_[static_cast<std::size_t>(operation) - ncclNumOps] = {};
}

}  // namespace emulation
