#include "profiler/device/cuda/cuda_cap.h"

#include <c10/cuda/CUDAFunctions.h>

#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

namespace mptune::profiler {

namespace {

namespace caching = c10::cuda::CUDACachingAllocator;

/// Checks the account's cap, then calls LibTorch's allocator, which owns the blocks, their deleters and the statistics.
class CappedAllocator final : public caching::CUDAAllocator {
 public:
  explicit CappedAllocator(caching::CUDAAllocator& inner) : inner_(inner) {}

  c10::DataPtr allocate(std::size_t bytes) override {
    return allocated(current_account(c10::cuda::current_device()), bytes, [&] { return inner_.allocate(bytes); });
  }
  void* raw_alloc(std::size_t bytes) override {
    return allocated(current_account(c10::cuda::current_device()), bytes, [&] { return inner_.raw_alloc(bytes); });
  }
  void* raw_alloc_with_stream(std::size_t bytes, cudaStream_t stream) override {
    CudaAccount* account = account_of(c10::cuda::current_device(), stream);
    return allocated(account, bytes, [&] { return inner_.raw_alloc_with_stream(bytes, stream); });
  }

  c10::DeleterFnPtr raw_deleter() const override { return inner_.raw_deleter(); }
  bool is_simple_data_ptr(const c10::DataPtr& data) const override { return inner_.is_simple_data_ptr(data); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { inner_.copy_data(to, from, bytes); }
  bool initialized() override { return inner_.initialized(); }
  void emptyCache(c10::MempoolId_t pool) override { inner_.emptyCache(pool); }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex gpu) override { return inner_.getDeviceStats(gpu); }
  void resetAccumulatedStats(c10::DeviceIndex gpu) override { inner_.resetAccumulatedStats(gpu); }
  void resetPeakStats(c10::DeviceIndex gpu) override { inner_.resetPeakStats(gpu); }
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex gpu) override { return inner_.getMemoryInfo(gpu); }

  void raw_delete(void* data) override { inner_.raw_delete(data); }
  void init(int gpus) override { inner_.init(gpus); }
  double getMemoryFraction(c10::DeviceIndex gpu) override { return inner_.getMemoryFraction(gpu); }
  void setMemoryFraction(double fraction, c10::DeviceIndex gpu) override { inner_.setMemoryFraction(fraction, gpu); }
  std::vector<caching::StreamSegmentSize> getExpandableSegmentSizes(c10::DeviceIndex gpu) override {
    return inner_.getExpandableSegmentSizes(gpu);
  }
  void enable(bool value) override { inner_.enable(value); }
  bool isEnabled() const override { return inner_.isEnabled(); }
  void cacheInfo(c10::DeviceIndex gpu, std::size_t* largest) override { inner_.cacheInfo(gpu, largest); }
  void* getBaseAllocation(void* data, std::size_t* size) override { return inner_.getBaseAllocation(data, size); }
  void recordStream(const c10::DataPtr& data, c10::cuda::CUDAStream stream) override { inner_.recordStream(data, stream); }
  caching::SnapshotInfo snapshot(c10::MempoolId_t pool, bool traces) override { return inner_.snapshot(pool, traces); }
  void beginAllocateToPool(c10::DeviceIndex gpu, c10::MempoolId_t pool, std::function<bool(cudaStream_t)> filter) override {
    inner_.beginAllocateToPool(gpu, pool, std::move(filter));
  }
  void endAllocateToPool(c10::DeviceIndex gpu, c10::MempoolId_t pool) override { inner_.endAllocateToPool(gpu, pool); }
  void releasePool(c10::DeviceIndex gpu, c10::MempoolId_t pool) override { inner_.releasePool(gpu, pool); }
  int getPoolUseCount(c10::DeviceIndex gpu, c10::MempoolId_t pool) override { return inner_.getPoolUseCount(gpu, pool); }
  void createOrIncrefPool(c10::DeviceIndex gpu, c10::MempoolId_t pool, std::shared_ptr<CUDAAllocator> allocator) override {
    inner_.createOrIncrefPool(gpu, pool, std::move(allocator));
  }
  void setUseOnOOM(c10::DeviceIndex gpu, c10::MempoolId_t pool, bool use) override { inner_.setUseOnOOM(gpu, pool, use); }
  void setNoSplit(c10::DeviceIndex gpu, c10::MempoolId_t pool) override { inner_.setNoSplit(gpu, pool); }
  bool checkPoolLiveAllocations(c10::DeviceIndex gpu, c10::MempoolId_t pool, const std::unordered_set<void*>& expected) override {
    return inner_.checkPoolLiveAllocations(gpu, pool, expected);
  }
  caching::ShareableHandle shareIpcHandle(void* data) override { return inner_.shareIpcHandle(data); }
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override { return inner_.getIpcDevPtr(std::move(handle)); }
  bool isHistoryEnabled() override { return inner_.isHistoryEnabled(); }
  void recordHistory(bool enabled, caching::CreateContextFn recorder, std::size_t most, caching::RecordContext when, bool clear,
                     const std::vector<std::string>& skipped) override {
    inner_.recordHistory(enabled, recorder, most, when, clear, skipped);
  }
  void recordAnnotation(const std::vector<std::pair<std::string, std::string>>& annotation) override {
    inner_.recordAnnotation(annotation);
  }
  void pushCompileContext(std::string& context) override { inner_.pushCompileContext(context); }
  void popCompileContext() override { inner_.popCompileContext(); }
  void setUserMetadata(const std::string& metadata) override { inner_.setUserMetadata(metadata); }
  std::string getUserMetadata() override { return inner_.getUserMetadata(); }
  void attachOutOfMemoryObserver(caching::OutOfMemoryObserver observer) override { inner_.attachOutOfMemoryObserver(std::move(observer)); }
  void attachAllocatorTraceTracker(caching::AllocatorTraceTracker tracker) override {
    inner_.attachAllocatorTraceTracker(std::move(tracker));
  }
  void enablePeerAccess(c10::DeviceIndex gpu, c10::DeviceIndex other) override { inner_.enablePeerAccess(gpu, other); }
  cudaError_t memcpyAsync(void* to, int to_gpu, const void* from, int from_gpu, std::size_t bytes, cudaStream_t stream,
                          bool reaches) override {
    return inner_.memcpyAsync(to, to_gpu, from, from_gpu, bytes, stream, reaches);
  }
  std::shared_ptr<caching::AllocatorState> getCheckpointState(c10::DeviceIndex gpu, c10::MempoolId_t pool) override {
    return inner_.getCheckpointState(gpu, pool);
  }
  caching::CheckpointDelta setCheckpointPoolState(c10::DeviceIndex gpu, std::shared_ptr<caching::AllocatorState> state) override {
    return inner_.setCheckpointPoolState(gpu, std::move(state));
  }
  std::string name() override { return inner_.name(); }

 private:
  template <class Allocate>
  std::invoke_result_t<Allocate> allocated(CudaAccount* account, std::size_t bytes, const Allocate& allocate) {
    if (account == nullptr) return allocate();
    require(*account, static_cast<std::int64_t>(bytes));
    try {
      return allocate();
    } catch (const c10::OutOfMemoryError&) {
      // The allocator's lock is free here: what is freed goes back to it, and it empties its cache before it fails again.
      if (!account->shortage().ask()) throw;
    }
    return allocate();
  }

  // Blocks that other streams read are freed late. LibTorch's allocator polls them before it fails, so the cap does the same.
  void require(CudaAccount& account, std::int64_t bytes) {
    if (!account.is_within_cap(bytes)) {
      account.shortage().ask();
      inner_.emptyCache({0, 0});
    }
    account.require(bytes);
  }

  caching::CUDAAllocator& inner_;
};

}  // namespace

void watch_allocations() {
  static std::once_flag done;
  std::call_once(done, [] {
    static CappedAllocator& allocator = *new CappedAllocator(*caching::get());
    caching::allocator.store(&allocator);
  });
}

}  // namespace mptune::profiler
