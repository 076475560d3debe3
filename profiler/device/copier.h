#pragma once

#include <memory>
#include <vector>

#include "profiler/device/device.h"

namespace mptune::profiler {

/// Result of a copy to a device.
struct Copied {
  std::vector<at::Tensor> tensors;  ///< in the destination's memory
  MomentPtr there;                  ///< the destination may read them after this moment
};

/// Copies from one device to another. Created and used by one thread, which Device::bind_copy has bound.
class Copier {
 public:
  virtual ~Copier() = default;
  /// Copies into communication buffers: memory of the destination that is free again as soon as nobody refers to the copy any more. Between
  /// GPUs, and between a GPU and the host, it is kept for later copies. The sources are read after `ready`, and kept until they have been
  /// read. Throws c10::OutOfMemoryError and whatever else the devices throw.
  [[nodiscard]] virtual Copied copy(const std::vector<at::Tensor>& tensors, const MomentPtr& ready) = 0;
};

/// `staged`: copies between GPUs go through pinned host memory, even if the GPUs can access each other's memory; ignored for other devices.
[[nodiscard]] std::unique_ptr<Copier> make_copier(const std::shared_ptr<Device>& source, const std::shared_ptr<Device>& destination,
                                                  bool staged);

}  // namespace mptune::profiler
