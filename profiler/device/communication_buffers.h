#pragma once

#include <memory>

#include "profiler/device/device.h"

namespace mptune::profiler {

/// Memory of a device that copies arrive in, reused as soon as nobody refers to an earlier copy any more. Together with what is handed out,
/// unused memory is at most what was ever handed out at once, and a MiB. The device's memory being short, it is freed. Thread-safe.
class CommunicationBuffers {
 public:
  struct Buffer {
    at::Tensor tensor;  ///< what the receiver gets; when nobody refers to it any more the memory is free again
    MomentPtr free;     ///< write to it after this moment only
  };

  explicit CommunicationBuffers(std::shared_ptr<Device> destination);
  /// What was handed out stays valid.
  ~CommunicationBuffers();
  CommunicationBuffers(const CommunicationBuffers&) = delete;
  CommunicationBuffers& operator=(const CommunicationBuffers&) = delete;

  /// For a copy of `tensor`: of its shape and type, contiguous. Memory whose last reader the device has finished comes first; where its
  /// readers are all still queued there, a few buffers more are made before one is handed out that has to be waited for.
  /// Throws what Device::empty_like throws.
  [[nodiscard]] Buffer take(const at::Tensor& tensor);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
  std::shared_ptr<void> short_of_memory_;  ///< frees unused memory while it lives
};

}  // namespace mptune::profiler
