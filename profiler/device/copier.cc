#include "profiler/device/copier.h"

#include <ATen/ATen.h>

#include "profiler/device/gpu_library.h"

namespace mptune::profiler {

namespace {

// No buffers of its own: the account's allocator keeps free blocks, which other tensors may take meanwhile.
class HostCopier final : public Copier {
 public:
  explicit HostCopier(std::shared_ptr<Device> destination) : destination_(std::move(destination)) {}

  [[nodiscard]] Copied copy(const std::vector<at::Tensor>& tensors, const MomentPtr& ready) override {
    wait_for(ready);
    Copied copied;
    for (const at::Tensor& tensor : tensors) {
      copied.tensors.push_back(destination_->empty_like(tensor));
      copied.tensors.back().copy_(tensor);
    }
    return copied;
  }

 private:
  std::shared_ptr<Device> destination_;
};

}  // namespace

std::unique_ptr<Copier> make_copier(const std::shared_ptr<Device>& source, const std::shared_ptr<Device>& destination, bool staged) {
  for (const auto& device : {source, destination})
    if (device->spec().kind == DeviceSpec::Kind::cuda) return gpu_library(device->name()).make_copier(source, destination, staged);
  return std::make_unique<HostCopier>(destination);
}

}  // namespace mptune::profiler
