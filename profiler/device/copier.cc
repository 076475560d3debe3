#include "profiler/device/copier.h"

#include <ATen/ATen.h>

#include "profiler/device/communication_buffers.h"
#include "profiler/device/gpu_library.h"

namespace mptune::profiler {

namespace {

class HostCopier final : public Copier {
 public:
  explicit HostCopier(std::shared_ptr<Device> destination) : buffers_(std::move(destination)) {}

  [[nodiscard]] Copied copy(const std::vector<at::Tensor>& tensors, const MomentPtr& ready) override {
    wait_for(ready);
    Copied copied;
    for (const at::Tensor& tensor : tensors) {
      CommunicationBuffers::Buffer buffer = buffers_.take(tensor);
      wait_for(buffer.free);
      buffer.tensor.copy_(tensor);
      copied.tensors.push_back(std::move(buffer.tensor));
    }
    return copied;
  }

 private:
  CommunicationBuffers buffers_;
};

}  // namespace

std::unique_ptr<Copier> make_copier(const std::shared_ptr<Device>& source, const std::shared_ptr<Device>& destination, bool staged) {
  for (const auto& device : {source, destination})
    if (device->spec().kind == DeviceSpec::Kind::cuda) return gpu_library(device->name()).make_copier(source, destination, staged);
  return std::make_unique<HostCopier>(destination);
}

}  // namespace mptune::profiler
