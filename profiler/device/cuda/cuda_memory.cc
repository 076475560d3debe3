#include "profiler/device/cuda/cuda_memory.h"

#include <map>
#include <mutex>
#include <utility>

#include "profiler/device/cuda/cuda_cap.h"

namespace mptune::profiler {

namespace {

using c10::cuda::CUDACachingAllocator::TraceEntry;

struct Accounts {
  std::mutex mutex;
  std::map<std::pair<int, cudaStream_t>, CudaAccount*> by_stream;
};

Accounts& accounts() {
  static Accounts& all = *new Accounts;
  return all;
}

/// This is called under the allocator's lock, so it takes no other lock than the one of the accounts.
void observe(const TraceEntry& entry) {
  const bool taken = entry.action_ == TraceEntry::ALLOC;
  if (!taken && entry.action_ != TraceEntry::FREE_COMPLETED) return;
  CudaAccount* account = account_of(entry.device_, static_cast<cudaStream_t>(entry.stream_));
  if (account == nullptr) return;
  const auto bytes = static_cast<std::int64_t>(entry.size_);
  taken ? account->charge(bytes) : account->release(bytes);
}

void observe_out_of_memory(std::int64_t gpu, std::size_t bytes) {
  if (CudaAccount* account = current_account(static_cast<c10::DeviceIndex>(gpu))) account->refused(static_cast<std::int64_t>(bytes));
}

}  // namespace

void CudaAccount::charge(std::int64_t bytes) {
  const std::int64_t now = current_ += bytes;
  std::int64_t peak = peak_;
  while (now > peak && !peak_.compare_exchange_weak(peak, now)) {
  }
}

bool CudaAccount::is_within_cap(std::int64_t bytes) const {
  const std::int64_t cap = cap_;
  return cap <= 0 || bytes <= cap - current_;
}

void CudaAccount::require(std::int64_t bytes) {
  if (is_within_cap(bytes)) return;
  refused_ = bytes;
  C10_THROW_ERROR(OutOfMemoryError,
                  c10::str("out of memory on ", name_, ": ", bytes, " bytes requested, ", current_.load(), " in use, cap ", cap_.load()));
}

void CudaAccount::set_cap_bytes(std::int64_t bytes) {
  cap_ = bytes;
  if (bytes > 0) watch_allocations();
}

void CudaAccount::begin_anew() {
  cap_ = 0;
  refused_ = 0;
  reset_peak();
}

CudaAccount* account_of(c10::DeviceIndex gpu, cudaStream_t stream) {
  Accounts& all = accounts();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_stream.find({gpu, stream});
  return found == all.by_stream.end() ? nullptr : found->second;
}

CudaAccount* current_account(c10::DeviceIndex gpu) {
  return account_of(gpu, c10::cuda::getCurrentCUDAStream(gpu).stream());
}

void charge_stream(const c10::cuda::CUDAStream& stream, CudaAccount& account) {
  static std::once_flag observing;
  std::call_once(observing, [] {
    auto* allocator = c10::cuda::CUDACachingAllocator::get();
    allocator->attachAllocatorTraceTracker(observe);
    allocator->attachOutOfMemoryObserver(
        [](std::int64_t gpu, std::size_t bytes, std::size_t, std::size_t) { observe_out_of_memory(gpu, bytes); });
  });
  Accounts& all = accounts();
  const std::lock_guard lock(all.mutex);
  all.by_stream[{stream.device_index(), stream.stream()}] = &account;
}

}  // namespace mptune::profiler
