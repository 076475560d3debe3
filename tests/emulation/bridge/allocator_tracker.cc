#include "tests/emulation/bridge/allocator_tracker.h"

#include <c10/cuda/CUDACachingAllocator.h>

#include <mutex>

#include "tests/emulation/machine/machine.h"

namespace emulation {

namespace {

using c10::cuda::CUDACachingAllocator::TraceEntry;

/// Called under the allocator's lock. The machine never calls the allocator, so its own locks may be taken.
void poison_new_block(const TraceEntry& entry) {
  if (entry.action_ != TraceEntry::ALLOC) return;
  Stream* stream = stream_of(entry.stream_);
  if (stream != nullptr) poison(*stream, reinterpret_cast<void*>(entry.addr_), entry.size_);  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace

void track_allocations() {
  static std::once_flag attached;
  std::call_once(attached, [] { c10::cuda::CUDACachingAllocator::get()->attachAllocatorTraceTracker(poison_new_block); });
}

}  // namespace emulation
