#include "profiler/device/cuda/cuda_copier.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/PeerToPeerAccess.h>

#include <array>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "profiler/base/index.h"
#include "profiler/device/communication_buffers.h"
#include "profiler/device/cuda/cuda_device.h"
#include "profiler/device/cuda/cuda_moment.h"
#include "profiler/device/cuda/cuda_sources.h"
#include "profiler/device/list/gpu_plans.h"

namespace mptune::profiler {

namespace {

using c10::cuda::CUDAStream;

constexpr std::int64_t kBufferBytes = 4 << 20;
constexpr int kBuffers = 3;

void transfer(void* to, const void* from, std::int64_t bytes, const CUDAStream& stream) {
  const c10::cuda::CUDAGuard guard(stream.device_index());
  C10_CUDA_CHECK(cudaMemcpyAsync(to, from, as_index(bytes), cudaMemcpyDefault, stream));
}

void wait_at_end(const CUDAStream& stream) noexcept {
  try {
    wait_for(now_on(stream));
  } catch (...) {
    // Errors are ignored: a failed GPU no longer writes to any memory.
  }
}

/// Copies that GPUs make by themselves, each one copy on one stream: between parts of one GPU, between GPUs with peer access (on the
/// source's copy-out stream), and between a GPU and pinned host memory.
class DirectCopier final : public Copier {
 public:
  static constexpr int kHost = -1;

  /// `gpu` is the destination's.
  DirectCopier(std::shared_ptr<CudaLanes> lanes, const CUDAStream& stream, int gpu, const std::shared_ptr<Device>& destination)
      : lanes_(std::move(lanes)), stream_(stream), gpu_(gpu), destinations_(destination) {}
  ~DirectCopier() override { wait_at_end(stream_); }

  [[nodiscard]] Copied copy(const std::vector<at::Tensor>& tensors, const MomentPtr& ready) override {
    hold(stream_, ready);
    Copied copied;
    for (const at::Tensor& tensor : tensors) {
      CommunicationBuffers::Buffer buffer = destinations_.take(tensor);
      if (tensor.numel() > 0) {
        hold(stream_, buffer.free);
        send(buffer.tensor, sources_.packed(tensor));
      }
      copied.tensors.push_back(std::move(buffer.tensor));
    }
    sources_.handed_over();
    copied.there = now_on(stream_);
    return copied;
  }

 private:
  void send(const at::Tensor& to, const at::Tensor& from) {
    const auto bytes = static_cast<std::int64_t>(from.nbytes());
    if (gpu_ == kHost || !from.is_cuda() || from.get_device() == gpu_)
      return transfer(to.data_ptr(), from.const_data_ptr(), bytes, stream_);
    const c10::cuda::CUDAGuard guard(stream_.device_index());
    C10_CUDA_CHECK(cudaMemcpyPeerAsync(to.data_ptr(), gpu_, from.const_data_ptr(), from.get_device(), as_index(bytes), stream_));
  }

  std::shared_ptr<CudaLanes> lanes_;  // own the stream
  CUDAStream stream_;
  CudaSources sources_{stream_};
  int gpu_;
  CommunicationBuffers destinations_;
};

/// Copies through pinned host memory in pieces: one buffer is read while the next is written. Between two GPUs no thread waits.
class StagedCopier final : public Copier {
 public:
  /// A null end is the host.
  StagedCopier(std::shared_ptr<CudaLanes> source, std::shared_ptr<CudaLanes> destination, const std::shared_ptr<Device>& receiver)
      : source_(std::move(source)), destination_(std::move(destination)), destinations_(receiver) {
    if (source_ != nullptr) sources_.emplace(source_->copy_out);
    for (Buffer& buffer : buffers_) buffer.memory = at::empty({kBufferBytes}, at::TensorOptions(at::kByte).pinned_memory(true));
  }
  ~StagedCopier() override {
    // Whatever fills the buffers is done before they are emptied.
    if (destination_ != nullptr) wait_at_end(destination_->copy_in);
  }

  [[nodiscard]] Copied copy(const std::vector<at::Tensor>& tensors, const MomentPtr& ready) override {
    source_ != nullptr ? hold(source_->copy_out, ready) : wait_for(ready);
    Copied copied;
    for (const at::Tensor& tensor : tensors) {
      CommunicationBuffers::Buffer buffer = destinations_.take(tensor);
      destination_ != nullptr ? hold(destination_->copy_in, buffer.free) : wait_for(buffer.free);
      if (tensor.numel() > 0) copy_one(buffer.tensor, tensor);
      copied.tensors.push_back(std::move(buffer.tensor));
    }
    if (sources_) sources_->handed_over();
    if (destination_ != nullptr) copied.there = now_on(destination_->copy_in);
    return copied;
  }

 private:
  struct Buffer {
    at::Tensor memory;
    MomentPtr filled;
    MomentPtr emptied;
  };

  void copy_one(const at::Tensor& to, const at::Tensor& tensor) {
    const at::Tensor from = sources_ ? sources_->packed(tensor) : tensor.contiguous();
    const auto pieces = staging_pieces(static_cast<std::int64_t>(from.nbytes()), kBufferBytes, kBuffers);
    for (std::size_t i = 0; i <= pieces.size(); ++i) {
      if (i < pieces.size()) fill(pieces[i], static_cast<const char*>(from.const_data_ptr()));
      if (i > 0) empty(pieces[i - 1], static_cast<char*>(to.data_ptr()));
    }
  }

  void fill(const StagingPiece& piece, const char* from) {
    Buffer& buffer = buffers_[as_index(piece.buffer)];
    if (source_ == nullptr) {
      wait_for(buffer.emptied);
      std::memcpy(buffer.memory.data_ptr(), from + piece.offset, as_index(piece.bytes));
      return;
    }
    hold(source_->copy_out, buffer.emptied);
    transfer(buffer.memory.data_ptr(), from + piece.offset, piece.bytes, source_->copy_out);
    buffer.filled = now_on(source_->copy_out);
  }

  void empty(const StagingPiece& piece, char* to) {
    Buffer& buffer = buffers_[as_index(piece.buffer)];
    if (destination_ == nullptr) {
      wait_for(buffer.filled);
      std::memcpy(to + piece.offset, buffer.memory.data_ptr(), as_index(piece.bytes));
      return;
    }
    hold(destination_->copy_in, buffer.filled);
    transfer(to + piece.offset, buffer.memory.data_ptr(), piece.bytes, destination_->copy_in);
    buffer.emptied = now_on(destination_->copy_in);
  }

  std::shared_ptr<CudaLanes> source_;
  std::shared_ptr<CudaLanes> destination_;
  std::optional<CudaSources> sources_;
  CommunicationBuffers destinations_;
  std::array<Buffer, kBuffers> buffers_;
};

}  // namespace

bool gpus_reach(int gpu, int other) {
  return gpu == other || c10::cuda::get_p2p_access(static_cast<c10::DeviceIndex>(gpu), static_cast<c10::DeviceIndex>(other));
}

std::unique_ptr<Copier> make_cuda_copier(const std::shared_ptr<Device>& source, const std::shared_ptr<Device>& destination, bool staged) {
  const auto from = cuda_lanes_of(*source), to = cuda_lanes_of(*destination);
  if (!staged && from && to && gpus_reach(from->spec.index, to->spec.index))
    return std::make_unique<DirectCopier>(from, from->copy_out, to->spec.index, destination);
  if (from && destination->is_pinned()) return std::make_unique<DirectCopier>(from, from->copy_out, DirectCopier::kHost, destination);
  if (to && source->is_pinned()) return std::make_unique<DirectCopier>(to, to->copy_in, to->spec.index, destination);
  return std::make_unique<StagedCopier>(from, to, destination);
}

}  // namespace mptune::profiler
