#pragma once

#include <memory>

#include "profiler/device/device.h"

namespace mptune::profiler {

/// Memory of a device that copies arrive in, reused as soon as nobody refers to an earlier copy any more. Handed-out and unused memory
/// together are at most the most that was ever handed out at once, plus 1 MiB. Unused memory is freed if the device is short of memory.
/// Thread-safe.
class CommunicationBuffers {
 public:
  struct Buffer {
    at::Tensor tensor;  ///< what the receiver gets; when nobody refers to it any more the memory is free again
    MomentPtr free;     ///< write to it after this moment only
  };

  explicit CommunicationBuffers(std::shared_ptr<Device> destination);
  /// Buffers that were handed out stay valid.
  ~CommunicationBuffers();
  CommunicationBuffers(const CommunicationBuffers&) = delete;
  CommunicationBuffers& operator=(const CommunicationBuffers&) = delete;

  /// Returns memory for a copy of `tensor`: of its shape and type, contiguous. Memory whose last reader the device has finished comes
  /// first; if all readers are still queued there, a few more buffers are made before one is handed out that has to be waited for. Throws
  /// what Device::empty_like throws.
  [[nodiscard]] Buffer take(const at::Tensor& tensor);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
  std::shared_ptr<void> short_of_memory_;  ///< frees unused memory while it lives
};

}  // namespace mptune::profiler
