#include "profiler/device/copier.h"

#include <ATen/ATen.h>

#include "profiler/device/communication_buffers.h"
#include "profiler/device/gpu_library.h"

namespace mptune::profiler {

namespace {

// If a device has done all work when its call returns, memory that nobody refers to is free: its allocator keeps it, and other tensors may
// take it meanwhile. A buffer of an asynchronous device is free when its last reader is done.
class HostCopier final : public Copier {
 public:
  explicit HostCopier(std::shared_ptr<Device> destination) : destination_(destination), buffers_(std::move(destination)) {}

  [[nodiscard]] Copied copy(const std::vector<at::Tensor>& tensors, const MomentPtr& ready) override {
    wait_for(ready);
    Copied copied;
    for (const at::Tensor& tensor : tensors) {
      copied.tensors.push_back(memory_for(tensor));
      copied.tensors.back().copy_(tensor);
    }
    return copied;
  }

 private:
  at::Tensor memory_for(const at::Tensor& tensor) {
    if (destination_->now() == nullptr) return destination_->empty_like(tensor);
    CommunicationBuffers::Buffer buffer = buffers_.take(tensor);
    wait_for(buffer.free);
    return std::move(buffer.tensor);
  }

  std::shared_ptr<Device> destination_;
  CommunicationBuffers buffers_;
};

}  // namespace

std::unique_ptr<Copier> make_copier(const std::shared_ptr<Device>& source, const std::shared_ptr<Device>& destination, bool staged) {
  for (const auto& device : {source, destination})
    if (device->spec().kind == DeviceSpec::Kind::cuda) return gpu_library(device->name()).make_copier(source, destination, staged);
  return std::make_unique<HostCopier>(destination);
}

}  // namespace mptune::profiler
