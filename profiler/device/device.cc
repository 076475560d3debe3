#include "profiler/device/device.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>

#include "profiler/base/error.h"
#include "profiler/device/gpu_library.h"
#include "profiler/device/precise_sleep.h"
#include "profiler/device/thread_count.h"

namespace mptune {

namespace {

void pin(const std::vector<int>& cores, const std::string& device) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int core : cores) CPU_SET(static_cast<unsigned>(core), &set);
  // The kernel ignores cores that do not exist and fails only if none is left, so the result is checked.
  cpu_set_t got;
  if (pthread_setaffinity_np(pthread_self(), sizeof set, &set) != 0 || pthread_getaffinity_np(pthread_self(), sizeof got, &got) != 0 ||
      !CPU_EQUAL(&set, &got))
    throw Error("this process may not run on these cores", device, "name cores that this process may use (see mptune doctor)",
                ExitCode::environment);
}

class AccountBinding final : public ThreadBinding {
 public:
  explicit AccountBinding(MemoryAccount& account) : scope_(account) {}

 private:
  AccountScope scope_;
};

class HostStamp final : public Stamp {
 public:
  [[nodiscard]] double seconds_since(const Stamp& earlier) const override {
    return std::chrono::duration<double>(time_ - static_cast<const HostStamp&>(earlier).time_).count();
  }

 private:
  profiler::SteadyClock::time_point time_ = profiler::SteadyClock::now();
};

/// Base of CPU and sleeping devices: host memory with an account.
class HostMemoryDevice : public Device {
 public:
  explicit HostMemoryDevice(DeviceSpec spec) : spec_(std::move(spec)), account_(new_memory_account(spec_.name)) {}
  ~HostMemoryDevice() override { account_.retire(); }

  [[nodiscard]] const DeviceSpec& spec() const override { return spec_; }
  [[nodiscard]] std::unique_ptr<ThreadBinding> charge_thread() override { return std::make_unique<AccountBinding>(account_); }
  [[nodiscard]] at::Tensor empty_like(const at::Tensor& tensor) override {
    const AccountScope scope(account_);
    return at::empty(tensor.sizes(), tensor.options().device(at::kCPU));
  }
  [[nodiscard]] at::Tensor from_host(const at::Tensor& tensor) override { return tensor; }
  void adopt(const at::Tensor&) override {}
  [[nodiscard]] MomentPtr now() override { return nullptr; }
  [[nodiscard]] MomentPtr now_of_caller() override { return nullptr; }
  void after(const MomentPtr& moment) override { wait_for(moment); }
  [[nodiscard]] std::unique_ptr<const Stamp> stamp() override { return std::make_unique<HostStamp>(); }
  [[nodiscard]] std::int64_t current_bytes() const override { return account_.current_bytes(); }
  [[nodiscard]] std::int64_t peak_bytes() const override { return account_.peak_bytes(); }
  void reset_peak() override { account_.reset_peak(); }
  [[nodiscard]] std::shared_ptr<void> when_short_of_memory(std::function<void()> free_some) override {
    return account_.when_short(std::move(free_some));
  }
  void set_memory_cap(std::int64_t bytes) override { account_.set_cap_bytes(bytes); }
  [[nodiscard]] std::int64_t memory_cap() const override { return account_.cap_bytes(); }
  [[nodiscard]] std::int64_t refused_bytes() const override { return account_.refused_bytes(); }

 protected:
  [[nodiscard]] MemoryAccount& account() { return account_; }

 private:
  DeviceSpec spec_;
  MemoryAccount& account_;
};

class CpuDevice final : public HostMemoryDevice {
 public:
  using HostMemoryDevice::HostMemoryDevice;

  [[nodiscard]] TraceDevice description() const override {
    const int cores = static_cast<int>(spec().cores.size());
    const auto memory = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
    return {name(), "CPU core set, " + std::to_string(cores) + (cores == 1 ? " core" : " cores"), cores,
            memory_cap() > 0 ? memory_cap() : memory};
  }

  [[nodiscard]] std::unique_ptr<ThreadBinding> bind_compute() override {
    pin(spec().cores, name());
    profiler::fix_thread_count(static_cast<int>(spec().cores.size()));
    return std::make_unique<AccountBinding>(account());
  }

  [[nodiscard]] std::unique_ptr<ThreadBinding> bind_copy(Device& destination) override {
    std::vector<int> cores = spec().cores;
    cores.insert(cores.end(), destination.spec().cores.begin(), destination.spec().cores.end());
    pin(cores, name());
    profiler::fix_thread_count(1);
    profiler::make_timers_exact();
    return std::make_unique<ThreadBinding>();
  }
};

class HostMemory final : public HostMemoryDevice {
 public:
  explicit HostMemory(bool pinned)
      : HostMemoryDevice({.kind = DeviceSpec::Kind::cpu, .name = "host memory", .cores = {}}), pinned_(pinned) {}

  [[nodiscard]] TraceDevice description() const override { return {name(), "host memory", 0, 0}; }
  [[nodiscard]] at::Tensor empty_like(const at::Tensor& tensor) override {
    if (!pinned_) return HostMemoryDevice::empty_like(tensor);
    return at::empty(tensor.sizes(), at::TensorOptions(tensor.scalar_type()).pinned_memory(true));
  }
  [[nodiscard]] bool is_pinned() const override { return pinned_; }
  [[nodiscard]] std::unique_ptr<ThreadBinding> bind_compute() override { return std::make_unique<ThreadBinding>(); }
  [[nodiscard]] std::unique_ptr<ThreadBinding> bind_copy(Device& destination) override {
    if (!destination.spec().cores.empty()) pin(destination.spec().cores, name());
    profiler::fix_thread_count(1);
    profiler::make_timers_exact();
    return std::make_unique<ThreadBinding>();
  }

 private:
  bool pinned_;
};

class SleepDevice final : public HostMemoryDevice {
 public:
  using HostMemoryDevice::HostMemoryDevice;

  [[nodiscard]] TraceDevice description() const override { return {name(), "sleeping device", 0, memory_cap()}; }

  [[nodiscard]] std::unique_ptr<ThreadBinding> bind_compute() override {
    profiler::fix_thread_count(1);
    profiler::make_timers_exact();
    return std::make_unique<AccountBinding>(account());
  }

  [[nodiscard]] std::unique_ptr<ThreadBinding> bind_copy(Device&) override {
    profiler::fix_thread_count(1);
    profiler::make_timers_exact();
    return std::make_unique<ThreadBinding>();
  }
};

}  // namespace

std::shared_ptr<Device> make_device(const DeviceSpec& spec) {
  switch (spec.kind) {
    case DeviceSpec::Kind::cpu:
      return std::make_shared<CpuDevice>(spec);
    case DeviceSpec::Kind::sleep:
      return std::make_shared<SleepDevice>(spec);
    case DeviceSpec::Kind::cuda:
      break;
  }
  return profiler::gpu_library(spec.name).make_device(spec);
}

std::shared_ptr<Device> make_host_memory(const Device& device) {
  return std::make_shared<HostMemory>(device.spec().kind == DeviceSpec::Kind::cuda);
}

}  // namespace mptune
