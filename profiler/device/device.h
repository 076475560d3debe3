#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/types.h>

#include "mptune/profiler/base/device_spec.h"
#include "mptune/profiler/device/cpu_allocator.h"
#include "mptune/profiler/device/moment.h"
#include "mptune/profiler/trace/trace.h"

namespace mptune {

/// Held by a thread for as long as it works for a device (a CUDA stream guard, an account of memory).
class ThreadBinding {
 public:
  virtual ~ThreadBinding() = default;
};

/// A reading of a device's own clock.
class Stamp {
 public:
  virtual ~Stamp() = default;
  /// Waits until the device has got here. Requires: both stamps are of one device.
  [[nodiscard]] virtual double seconds_since(const Stamp& earlier) const = 0;
};

/// Something that runs stages: it computes on one lane and copies on others. Thread-safe.
class Device {
 public:
  virtual ~Device() = default;

  [[nodiscard]] virtual const DeviceSpec& spec() const = 0;
  [[nodiscard]] const std::string& name() const { return spec().name; }
  [[nodiscard]] virtual TraceDevice description() const = 0;

  /// Makes the calling thread the device's compute thread: call it first thing in a new thread, before any parallel region.
  /// Throws Error (environment) if the device can't be had.
  [[nodiscard]] virtual std::unique_ptr<ThreadBinding> bind_compute() = 0;
  /// Makes the calling thread one that copies from this device to `destination`, into tensors of destination.empty_like().
  /// Throws Error (environment) if one of the two can't be had.
  [[nodiscard]] virtual std::unique_ptr<ThreadBinding> bind_copy(Device& destination) = 0;

  /// A tensor of this shape and type in the device's memory, contents undefined; the compute lane may write to it at once.
  [[nodiscard]] virtual at::Tensor empty_like(const at::Tensor& tensor) = 0;
  /// A host tensor as the compute lane reads it: itself where the device reads host memory. Compute thread only.
  [[nodiscard]] virtual at::Tensor from_host(const at::Tensor& tensor) = 0;
  /// Moves a host tensor's contents into the device's memory, in place, whoever refers to it. Compute thread only.
  virtual void adopt(const at::Tensor& tensor) = 0;

  /// The end of what the compute lane was given so far.
  [[nodiscard]] virtual MomentPtr now() = 0;
  /// The end of what the calling thread has given the device by itself, beside the lanes: an optimizer's step, say.
  [[nodiscard]] virtual MomentPtr now_of_caller() = 0;
  /// What the compute lane is given from here on begins after `moment`. Compute thread only.
  virtual void after(const MomentPtr& moment) = 0;
  /// When the compute lane gets here.
  [[nodiscard]] virtual std::unique_ptr<const Stamp> stamp() = 0;

  /// Allocated bytes of tensors; 0 where accounting is not installed.
  [[nodiscard]] virtual std::int64_t current_bytes() const = 0;
  [[nodiscard]] virtual std::int64_t peak_bytes() const = 0;
  virtual void reset_peak() = 0;
  /// 0: none. Exceeding it throws c10::OutOfMemoryError in the thread that allocates.
  virtual void set_memory_cap(std::int64_t bytes) = 0;
  [[nodiscard]] virtual std::int64_t memory_cap() const = 0;
  /// Size of the last allocation that was refused, by the cap or because the device has no memory left (of a GPU then as its allocator
  /// rounds it up, to 2 MiB and more); 0: none.
  [[nodiscard]] virtual std::int64_t refused_bytes() const = 0;
};

/// A CPU core set, a GPU or a part of one, a sleeping device. A CPU device's compute thread is pinned to its cores and uses as many
/// intra-op threads. A sleeping device has no cores: its layers sleep (see sleep_model). Throws Error (environment) for a GPU that can't be
/// had.
[[nodiscard]] std::shared_ptr<Device> make_device(const DeviceSpec& spec);

/// Loads what devices of GPUs need; nothing where there is no GPU. LibTorch settles for good at its first convolution, backward or seed
/// whether there is CUDA: a program that makes such a device later calls this first thing in main, before it has threads. It sets
/// CUDA_DEVICE_MAX_CONNECTIONS to 32 in the environment unless that is set. Throws Error (environment) for a library that is missing.
void prepare_gpus();

}  // namespace mptune
