#include "tuner/runtime/between/remote_device.h"

#include <cassert>
#include <string>
#include <utility>

#include "profiler/base/error.h"

namespace mptune::tuner {
namespace {

class RemoteDevice final : public Device {
 public:
  explicit RemoteDevice(DeviceSpec spec) : spec_(std::move(spec)) {}
  [[nodiscard]] const DeviceSpec& spec() const override { return spec_; }
  [[nodiscard]] TraceDevice description() const override {
    TraceDevice device;
    device.name = spec_.name;
    return device;
  }
  [[nodiscard]] std::unique_ptr<ThreadBinding> bind_compute() override { return nothing_is_done_here(); }
  [[nodiscard]] std::unique_ptr<ThreadBinding> bind_copy(Device& /*destination*/) override { return nothing_is_done_here(); }
  [[nodiscard]] at::Tensor empty_like(const at::Tensor& /*tensor*/) override { return nothing_is_done_here(), at::Tensor(); }
  [[nodiscard]] at::Tensor from_host(const at::Tensor& tensor) override { return tensor; }
  void adopt(const at::Tensor& /*tensor*/) override {}
  [[nodiscard]] MomentPtr now() override { return nullptr; }
  [[nodiscard]] MomentPtr now_of_caller() override { return nullptr; }
  void after(const MomentPtr& /*moment*/) override {}
  [[nodiscard]] std::unique_ptr<const Stamp> stamp() override { return nullptr; }
  [[nodiscard]] std::int64_t current_bytes() const override { return 0; }
  [[nodiscard]] std::int64_t peak_bytes() const override { return 0; }
  void reset_peak() override {}
  void set_memory_cap(std::int64_t /*bytes*/) override {}
  [[nodiscard]] std::int64_t memory_cap() const override { return 0; }
  [[nodiscard]] std::int64_t refused_bytes() const override { return 0; }

 private:
  static std::nullptr_t nothing_is_done_here() {
    assert(false);
    return nullptr;
  }
  DeviceSpec spec_;
};

}  // namespace

std::shared_ptr<Device> make_device_of(const DeviceSpec& spec, const RankGroup* ranks) {
  const int size = ranks == nullptr ? 1 : ranks->size();
  if (spec.rank >= size)
    throw Error("the plan names a device of rank " + std::to_string(spec.rank) + ", and there " +
                    (size == 1 ? "is 1 rank" : "are " + std::to_string(size) + " ranks"),
                spec.name, "start as many with torchrun, or with --ranks " + std::to_string(spec.rank + 1));
  if (ranks != nullptr && spec.rank != ranks->rank()) return std::make_shared<RemoteDevice>(spec);
  return make_device(spec);
}

}  // namespace mptune::tuner
