#include "profiler/device/cuda/nccl_connector.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <dlfcn.h>
#include <torch/csrc/cuda/nccl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <utility>

#include "profiler/device/communication_buffers.h"
#include "profiler/device/cuda/cuda_device.h"
#include "profiler/device/cuda/cuda_moment.h"
#include "profiler/device/cuda/cuda_sources.h"

namespace mptune::profiler {
namespace {

namespace nccl = torch::cuda::nccl;
using c10::cuda::CUDAStream;

// An abort does not wait longer for a call that NCCL does not return from.
constexpr std::chrono::seconds kPatienceOfAbort{1};

/// Streams of communicators that are gone. Never destroyed: LibTorch's allocator records events on the streams that have read its memory.
struct IdleStreams {
  std::mutex mutex;
  std::multimap<c10::DeviceIndex, cudaStream_t> by_gpu;
};
IdleStreams& idle_streams() {
  static auto& all = *new IdleStreams;
  return all;
}

// Each communicator gets a stream of its own, so that one that waits for a member holds up none that waits for another. The stream has
// priority over computing: other members wait for what it sends.
CUDAStream take_stream(c10::DeviceIndex gpu) {
  {
    const std::lock_guard lock(idle_streams().mutex);
    if (auto found = idle_streams().by_gpu.extract(gpu)) return c10::cuda::getStreamFromExternal(found.mapped(), gpu);
  }
  const c10::cuda::CUDAGuard guard(gpu);
  int least = 0, greatest = 0;
  C10_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  cudaStream_t stream = nullptr;
  C10_CUDA_CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
  return c10::cuda::getStreamFromExternal(stream, gpu);
}

void give_back(const CUDAStream& stream) {
  const std::lock_guard lock(idle_streams().mutex);
  idle_streams().by_gpu.emplace(stream.device_index(), stream.stream());
}

/// Ends a communicator at once, its kernels on the GPU included. LibTorch, which has loaded NCCL, has no function for it: its
/// comm_destroy() does nothing.
void end(nccl::ncclComm_t communicator) {
  using Abort = int (*)(void*);
  static const Abort abort = [] {
    void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
    return library == nullptr ? nullptr : reinterpret_cast<Abort>(dlsym(library, "ncclCommAbort"));
  }();
  if (abort != nullptr) (void)abort(communicator);
}

template <std::size_t kCount>
std::string in_hex(const char (&bytes)[kCount]) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    text += {kDigits[value / 16], kDigits[value % 16]};
  }
  return text;
}

/// Views a tensor's memory as bytes, since NCCL does not have all types.
at::Tensor bytes_of(const at::Tensor& tensor) {
  return at::from_blob(tensor.data_ptr(), {static_cast<std::int64_t>(tensor.nbytes())}, tensor.options().dtype(at::kByte));
}

class NcclCommunicator final : public GpuCommunicator {
 public:
  NcclCommunicator(const std::shared_ptr<Device>& device, const nccl::ncclUniqueId& id, int members, int member)
      : lanes_(cuda_lanes_of(*device)), stream_(take_stream(lanes_->compute.device_index())), buffers_(device) {
    const c10::cuda::CUDAGuard guard(stream_.device_index());
    communicator_ = nccl::comm_init_rank(members, id, member);
  }
  ~NcclCommunicator() override {
    try {
      stream_.synchronize();  // what was sent may be on its way
    } catch (...) {
      // A failed GPU reads and writes no more.
    }
    abort();
    give_back(stream_);
  }

  MomentPtr send(int to, const std::vector<at::Tensor>& tensors) override {
    const std::lock_guard lock(mutex_);
    nccl::ncclComm_t communicator = open();
    hold(stream_, now_on(lanes_->compute));
    const c10::cuda::CUDAGuard guard(stream_.device_index());
    for (const at::Tensor& tensor : tensors)
      if (tensor.numel() > 0) nccl::send(bytes_of(sources_.packed(tensor)), communicator, stream_, to);
    sources_.handed_over();
    return now_on(stream_);
  }

  [[nodiscard]] Copied receive(int from, const std::vector<at::Tensor>& likes) override {
    const std::lock_guard lock(mutex_);
    nccl::ncclComm_t communicator = open();
    const c10::cuda::CUDAGuard guard(stream_.device_index());
    Copied received;
    for (const at::Tensor& like : likes) {
      CommunicationBuffers::Buffer buffer = buffers_.take(like);
      if (like.numel() > 0) {
        hold(stream_, buffer.free);
        at::Tensor bytes = bytes_of(buffer.tensor);
        nccl::recv(bytes, communicator, stream_, from);
      }
      received.tensors.push_back(std::move(buffer.tensor));
    }
    received.there = now_on(stream_);
    return received;
  }

  void all_reduce(const at::Tensor& numbers) override {
    const std::lock_guard lock(mutex_);
    std::vector<at::Tensor> sum{numbers};
    nccl::all_reduce(sum, sum, static_cast<int>(nccl::ncclRedOp::Sum), {lanes_->compute}, {open()});
  }

  void abort() noexcept override {
    try {
      const std::unique_lock lock(mutex_, kPatienceOfAbort);
      if (nccl::ncclComm_t communicator = communicator_.exchange(nullptr)) end(communicator);
    } catch (...) {
      // The rank ends with an error in any case.
    }
  }

 private:
  [[nodiscard]] nccl::ncclComm_t open() const {
    nccl::ncclComm_t communicator = communicator_;
    TORCH_CHECK(communicator != nullptr, "another rank has given up");
    return communicator;
  }

  std::shared_ptr<CudaLanes> lanes_;
  CUDAStream stream_;
  CommunicationBuffers buffers_;
  CudaSources sources_{stream_};
  std::timed_mutex mutex_;
  std::atomic<nccl::ncclComm_t> communicator_ = nullptr;  ///< null once it was aborted
};

class NcclConnector final : public GpuConnector {
 public:
  [[nodiscard]] std::string identity_of(const Device& device) const override {
    const auto lanes = cuda_lanes_of(device);
    if (!lanes || lanes->spec.parts > 1) return {};
    cudaDeviceProp properties{};
    C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, lanes->spec.index));
    return in_hex(properties.uuid.bytes);
  }
  [[nodiscard]] std::string new_id() const override {
    nccl::ncclUniqueId id{};
    nccl::get_unique_id(id);
    return {id.internal, sizeof id.internal};
  }
  [[nodiscard]] std::shared_ptr<GpuCommunicator> connect(const std::shared_ptr<Device>& device, const std::string& id, int members,
                                                         int member) const override {
    nccl::ncclUniqueId unique{};
    TORCH_CHECK(id.size() == sizeof unique.internal, "this is no communicator of NCCL");
    std::ranges::copy(id, unique.internal);
    return std::make_shared<NcclCommunicator>(device, unique, members, member);
  }
};

}  // namespace

const GpuConnector& make_nccl_connector() {
  static const NcclConnector connector;
  return connector;
}

}  // namespace mptune::profiler
