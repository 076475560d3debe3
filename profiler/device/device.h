#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <torch/types.h>

#include "profiler/base/device_spec.h"
#include "profiler/device/cpu_allocator.h"
#include "profiler/device/moment.h"
#include "profiler/trace/values/trace.h"

namespace mptune {

/// Held by a thread while it works for a device (a CUDA stream guard, a memory account).
class ThreadBinding {
 public:
  virtual ~ThreadBinding() = default;
};

/// A time stamp of a device's own clock.
class Stamp {
 public:
  virtual ~Stamp() = default;
  /// Waits until the device has reached this stamp. Requires: both stamps are of one device.
  [[nodiscard]] virtual double seconds_since(const Stamp& earlier) const = 0;
};

/// Runs stages: computes on one lane and copies on others. Thread-safe.
class Device {
 public:
  virtual ~Device() = default;

  [[nodiscard]] virtual const DeviceSpec& spec() const = 0;
  [[nodiscard]] const std::string& name() const { return spec().name; }
  [[nodiscard]] virtual TraceDevice description() const = 0;

  /// Makes the calling thread the device's compute thread. Call it first thing in a new thread, before any parallel region.
  /// Throws Error (environment) if the device is not available.
  [[nodiscard]] virtual std::unique_ptr<ThreadBinding> bind_compute() = 0;
  /// Makes the calling thread a thread that copies from this device to `destination`, into tensors of destination.empty_like().
  /// Throws Error (environment) if one of the two is not available.
  [[nodiscard]] virtual std::unique_ptr<ThreadBinding> bind_copy(Device& destination) = 0;

  /// While it lives, tensors of the calling thread are charged to this device, although the thread works for another one.
  /// Null for a device whose memory is not the host's.
  [[nodiscard]] virtual std::unique_ptr<ThreadBinding> charge_thread() { return nullptr; }

  /// Returns an uninitialised tensor of this shape and type in the device's memory. The compute lane may write to it at once.
  [[nodiscard]] virtual at::Tensor empty_like(const at::Tensor& tensor) = 0;
  /// True if from_host() first copies a tensor within the host's memory, unless staged() has done so.
  [[nodiscard]] virtual bool stages_host_tensors() const { return false; }
  /// Returns the host tensor in memory from which from_host() copies at once. Any thread may call it; it takes as long as a copy.
  [[nodiscard]] virtual at::Tensor staged(const at::Tensor& tensor) { return tensor; }
  /// True for host memory that GPUs copy from and to by themselves.
  [[nodiscard]] virtual bool is_pinned() const { return false; }
  /// Returns a host tensor for the compute lane to read: the same tensor if the device reads host memory. Compute thread only.
  [[nodiscard]] virtual at::Tensor from_host(const at::Tensor& tensor) = 0;
  /// Moves a host tensor's storage into the device's memory, in place: all references see it. Compute thread only.
  virtual void adopt(const at::Tensor& tensor) = 0;

  /// Returns the end of all work that the compute lane was given so far. Always null for a device that has done its work when a call
  /// returns.
  [[nodiscard]] virtual MomentPtr now() = 0;
  /// Returns the end of work that the calling thread gave the device outside of the lanes, such as an optimizer's step.
  [[nodiscard]] virtual MomentPtr now_of_caller() = 0;
  /// Makes later work of the compute lane start after `moment`. Compute thread only.
  virtual void after(const MomentPtr& moment) = 0;
  /// Returns a time stamp at this point of the compute lane's work.
  [[nodiscard]] virtual std::unique_ptr<const Stamp> stamp() = 0;

  /// Returns how much of the device's own memory tensors and libraries of this process can have: what is in use and what is free, less what
  /// LibTorch's allocator can't avoid leaving unused. A part of a GPU has its share. The call frees what that allocator keeps for later.
  /// The result is at least 1; it is 0 for a device without memory of its own.
  [[nodiscard]] virtual std::int64_t available_bytes() { return 0; }
  /// Returns the allocated bytes of tensors; 0 if accounting is not installed.
  [[nodiscard]] virtual std::int64_t current_bytes() const = 0;
  [[nodiscard]] virtual std::int64_t peak_bytes() const = 0;
  virtual void reset_peak() = 0;
  /// While the result lives, `free_some` is called in the allocating thread before the device refuses an allocation. It frees tensors and
  /// allocates none. Null for a device without memory of its own.
  [[nodiscard]] virtual std::shared_ptr<void> when_short_of_memory(std::function<void()> /*free_some*/) { return nullptr; }
  /// Sets the cap; 0: no cap. Exceeding it throws c10::OutOfMemoryError in the thread that allocates.
  virtual void set_memory_cap(std::int64_t bytes) = 0;
  [[nodiscard]] virtual std::int64_t memory_cap() const = 0;
  /// Returns the size of the last allocation that failed, because of the cap or because the device has no memory left; 0: none. Without a
  /// cap, a GPU's allocator reports a rounded size (2 MiB and more).
  [[nodiscard]] virtual std::int64_t refused_bytes() const = 0;
};

/// Makes a CPU core set, a GPU or a part of one, or a sleeping device. Throws Error (environment) if a GPU is not available.
/// A CPU device's compute thread is pinned to its cores and uses as many intra-op threads.
/// A sleeping device has no cores: its layers sleep (see sleep_model.h).
[[nodiscard]] std::shared_ptr<Device> make_device(const DeviceSpec& spec);

/// Makes host memory in which tensors of `device` lie for a while, as the other end of its copies. It is charged to no account. For a GPU
/// it is pinned, so that the GPU copies without help of the host's cores.
[[nodiscard]] std::shared_ptr<Device> make_host_memory(const Device& device);

/// Loads the libraries that GPUs need; does nothing without a GPU. Throws Error (environment) if a library is missing.
/// LibTorch decides at its first convolution, backward or seed whether there is CUDA. So a program that will use GPUs calls this first
/// thing in main, before it has threads. Sets the environment variable CUDA_DEVICE_MAX_CONNECTIONS to 32 unless it is set.
void prepare_gpus();

}  // namespace mptune
