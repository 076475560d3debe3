#include "mptune/profiler/device/copier.h"

#include <ATen/ATen.h>

#include "mptune/profiler/device/gpu_library.h"
#include "mptune/profiler/device/receive_slots.h"

namespace mptune {

namespace {

class HostCopier final : public Copier {
 public:
  explicit HostCopier(std::shared_ptr<Device> destination) : slots_(std::move(destination)) {}

  [[nodiscard]] Copied copy(const std::vector<at::Tensor>& tensors, const MomentPtr& ready) override {
    wait_for(ready);
    Copied copied;
    for (const at::Tensor& tensor : tensors) {
      ReceiveSlots::Slot slot = slots_.take(tensor);
      wait_for(slot.free);
      slot.tensor.copy_(tensor);
      copied.tensors.push_back(std::move(slot.tensor));
    }
    return copied;
  }

 private:
  ReceiveSlots slots_;
};

}  // namespace

std::unique_ptr<Copier> make_copier(const std::shared_ptr<Device>& source, const std::shared_ptr<Device>& destination, bool staged) {
  for (const auto& device : {source, destination})
    if (device->spec().kind == DeviceSpec::Kind::cuda) return gpu_library(device->name()).make_copier(source, destination, staged);
  return std::make_unique<HostCopier>(destination);
}

}  // namespace mptune
