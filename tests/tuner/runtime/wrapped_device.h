#pragma once

#include <atomic>
#include <memory>

#include "profiler/device/device.h"

namespace mptune::testing {

/// Another device, but for what a test changes of it.
class WrappedDevice : public Device {
 public:
  explicit WrappedDevice(std::shared_ptr<Device> inner) : inner_(std::move(inner)) {}
  [[nodiscard]] const DeviceSpec& spec() const override { return inner_->spec(); }
  [[nodiscard]] TraceDevice description() const override { return inner_->description(); }
  [[nodiscard]] std::unique_ptr<ThreadBinding> bind_compute() override { return inner_->bind_compute(); }
  [[nodiscard]] std::unique_ptr<ThreadBinding> bind_copy(Device& destination) override { return inner_->bind_copy(destination); }
  [[nodiscard]] std::unique_ptr<ThreadBinding> charge_thread() override { return inner_->charge_thread(); }
  [[nodiscard]] at::Tensor empty_like(const at::Tensor& tensor) override { return inner_->empty_like(tensor); }
  [[nodiscard]] bool stages_host_tensors() const override { return inner_->stages_host_tensors(); }
  [[nodiscard]] at::Tensor staged(const at::Tensor& tensor) override { return inner_->staged(tensor); }
  [[nodiscard]] at::Tensor from_host(const at::Tensor& tensor) override { return inner_->from_host(tensor); }
  void adopt(const at::Tensor& tensor) override { inner_->adopt(tensor); }
  [[nodiscard]] MomentPtr now() override { return inner_->now(); }
  [[nodiscard]] MomentPtr now_of_caller() override { return inner_->now_of_caller(); }
  void after(const MomentPtr& moment) override { inner_->after(moment); }
  [[nodiscard]] std::unique_ptr<const Stamp> stamp() override { return inner_->stamp(); }
  [[nodiscard]] std::int64_t current_bytes() const override { return inner_->current_bytes(); }
  [[nodiscard]] std::int64_t peak_bytes() const override { return inner_->peak_bytes(); }
  void reset_peak() override { inner_->reset_peak(); }
  void set_memory_cap(std::int64_t bytes) override { inner_->set_memory_cap(bytes); }
  [[nodiscard]] std::int64_t memory_cap() const override { return inner_->memory_cap(); }
  [[nodiscard]] std::int64_t refused_bytes() const override { return inner_->refused_bytes(); }

 private:
  std::shared_ptr<Device> inner_;
};

/// A device that, like a GPU, is behind its thread: its work is done when the test says so.
class BehindDevice final : public WrappedDevice {
 public:
  using WrappedDevice::WrappedDevice;

  class Gate final : public Moment {
   public:
    [[nodiscard]] bool reached() const override { return open_; }
    void wait() const override { open_.wait(false); }
    void open() {
      open_ = true;
      open_.notify_all();
    }

   private:
    std::atomic<bool> open_{false};
  };
  [[nodiscard]] MomentPtr now() override { return gate; }
  [[nodiscard]] MomentPtr now_of_caller() override { return callers; }

  std::shared_ptr<Gate> gate = std::make_shared<Gate>(), callers;
};

}  // namespace mptune::testing
