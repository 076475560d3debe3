#include "profiler/device/cuda/cuda_device.h"

#include <ATen/ATen.h>
#include <c10/core/AutogradState.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>

#include "profiler/device/cuda/cuda_cap.h"
#include "profiler/device/cuda/cuda_moment.h"
#include "profiler/device/precise_sleep.h"
#include "profiler/device/thread_count.h"

namespace mptune::profiler {

namespace {

/// Directs the thread's work to the compute stream. Backward runs on the same thread: LibTorch would use one backward thread per GPU, on
/// which parts of one GPU would wait for each other.
class ComputeBinding final : public ThreadBinding {
 public:
  explicit ComputeBinding(const c10::cuda::CUDAStream& stream) : guard_(stream) {
    c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
  }
  ~ComputeBinding() override { c10::AutogradState::get_tls_state().set_multithreading_enabled(before_); }

 private:
  bool before_ = c10::AutogradState::get_tls_state().get_multithreading_enabled();
  c10::cuda::CUDAStreamGuard guard_;
};

class CudaStamp final : public Stamp {
 public:
  explicit CudaStamp(const c10::cuda::CUDAStream& stream) : event_(recorded_event<cudaEventDefault>(stream)) {}
  [[nodiscard]] double seconds_since(const Stamp& earlier) const override {
    event_->synchronize();
    return static_cast<double>(static_cast<const CudaStamp&>(earlier).event_->elapsed_time(*event_)) / 1e3;
  }

 private:
  CudaEvents::Lent event_;
};

/// LibTorch's allocator takes memory in pieces of 2 MiB for small tensors and of 20 MiB for larger ones; another stream can't use any of
/// it: each of the three lanes leaves up to one piece of both sizes unused.
constexpr std::int64_t kUnusedBytes = std::int64_t{3 * 22} << 20;

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(std::shared_ptr<CudaLanes> lanes) : shared_lanes_(std::move(lanes)) {}

  [[nodiscard]] std::shared_ptr<CudaLanes> lanes() const { return shared_lanes_; }
  [[nodiscard]] const DeviceSpec& spec() const override { return lanes_.spec; }
  [[nodiscard]] TraceDevice description() const override {
    return {name(), lanes_.gpu, lanes_.sms, memory_cap() > 0 ? memory_cap() : lanes_.memory_bytes};
  }

  [[nodiscard]] std::unique_ptr<ThreadBinding> bind_compute() override {
    fix_thread_count(1);
    return std::make_unique<ComputeBinding>(lanes_.compute);
  }
  [[nodiscard]] std::unique_ptr<ThreadBinding> bind_copy(Device& destination) override {
    if (destination.spec().kind != DeviceSpec::Kind::cuda) return destination.bind_copy(*this);
    fix_thread_count(1);
    make_timers_exact();
    return std::make_unique<ThreadBinding>();
  }

  [[nodiscard]] at::Tensor empty_like(const at::Tensor& tensor) override {
    const c10::cuda::CUDAStreamGuard guard(lanes_.compute);
    return at::empty(tensor.sizes(), at::TensorOptions(tensor.scalar_type()).device(lanes_.device()));
  }
  [[nodiscard]] bool stages_host_tensors() const override { return true; }
  [[nodiscard]] at::Tensor staged(const at::Tensor& tensor) override { return tensor.pin_memory(); }
  [[nodiscard]] at::Tensor from_host(const at::Tensor& tensor) override {
    at::Tensor copy;
    {
      const c10::cuda::CUDAStreamGuard guard(lanes_.copy_in);
      copy = staged(tensor).to(lanes_.device(), tensor.scalar_type(), /*non_blocking=*/true);
    }
    after(now_on(lanes_.copy_in));
    copy.record_stream(lanes_.compute);
    return copy;
  }
  void adopt(const at::Tensor& tensor) override {
    const at::NoGradGuard no_grad;
    tensor.set_data(tensor.detach().to(lanes_.device()));
  }

  [[nodiscard]] MomentPtr now() override { return now_on(lanes_.compute); }
  [[nodiscard]] MomentPtr now_of_caller() override { return now_on(c10::cuda::getCurrentCUDAStream(lanes_.compute.device_index())); }
  void after(const MomentPtr& moment) override { hold(lanes_.compute, moment); }
  [[nodiscard]] std::unique_ptr<const Stamp> stamp() override { return std::make_unique<CudaStamp>(lanes_.compute); }

  [[nodiscard]] std::int64_t available_bytes() override {
    const c10::cuda::CUDAGuard guard(lanes_.compute.device_index());
    c10::cuda::CUDACachingAllocator::emptyCache();
    std::size_t free = 0, all = 0;
    C10_CUDA_CHECK(cudaMemGetInfo(&free, &all));
    const auto kinds = c10::cuda::CUDACachingAllocator::getDeviceStats(lanes_.compute.device_index()).reserved_bytes;
    const std::int64_t reserved = kinds[static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE)].current;
    return std::max<std::int64_t>(1, (static_cast<std::int64_t>(free) + reserved) / spec().parts - kUnusedBytes);
  }
  [[nodiscard]] std::int64_t current_bytes() const override { return lanes_.account.current_bytes(); }
  [[nodiscard]] std::int64_t peak_bytes() const override { return lanes_.account.peak_bytes(); }
  void reset_peak() override { lanes_.account.reset_peak(); }
  [[nodiscard]] std::shared_ptr<void> when_short_of_memory(std::function<void()> free_some) override {
    watch_allocations();
    return lanes_.account.shortage().when_short(std::move(free_some));
  }
  void set_memory_cap(std::int64_t bytes) override { lanes_.account.set_cap_bytes(bytes); }
  [[nodiscard]] std::int64_t memory_cap() const override { return lanes_.account.cap_bytes(); }
  [[nodiscard]] std::int64_t refused_bytes() const override { return lanes_.account.refused_bytes(); }

 private:
  std::shared_ptr<CudaLanes> shared_lanes_;
  CudaLanes& lanes_ = *shared_lanes_;
};

}  // namespace

std::shared_ptr<Device> make_cuda_device(const DeviceSpec& spec) {
  return std::make_shared<CudaDevice>(take_cuda_lanes(spec));
}

std::shared_ptr<CudaLanes> cuda_lanes_of(const Device& device) {
  const auto* cuda = dynamic_cast<const CudaDevice*>(&device);
  return cuda != nullptr ? cuda->lanes() : nullptr;
}

}  // namespace mptune::profiler
