#include "profiler/device/estimated_device.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <c10/core/Allocator.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "profiler/device/operator_cost.h"
#include "profiler/device/shape_kernels.h"

namespace mptune::profiler {

namespace {

/// Bytes of the tensors of one device. Shared by the tensors, which may outlive it.
struct Bytes {
  std::atomic<std::int64_t> current{0};
  std::atomic<std::int64_t> peak{0};
};

thread_local std::shared_ptr<Bytes> charged;

/// A tensor's memory: none, but counted.
struct Charge {
  std::shared_ptr<Bytes> bytes;
  std::int64_t size;
};

void discharge(void* context) {
  const std::unique_ptr<Charge> charge(static_cast<Charge*>(context));
  charge->bytes->current -= charge->size;
}

/// Counts meta tensors of threads that work for an estimated device.
class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t size) override {
    const c10::Device meta(c10::DeviceType::Meta);
    if (!charged || size == 0) return {nullptr, meta};
    std::unique_ptr<Charge> charge(new Charge{charged, static_cast<std::int64_t>(size)});
    const std::int64_t now = charged->current += charge->size;
    charged->peak = std::max(charged->peak.load(), now);
    return {nullptr, charge.release(), &discharge, meta};
  }
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void*, const void*, std::size_t) const override {}
};

void count_meta_tensors() {
  static std::once_flag once;
  std::call_once(once, [] {
    static CountingAllocator& allocator = *new CountingAllocator;
    c10::SetAllocator(c10::DeviceType::Meta, &allocator, /*priority=*/1);
  });
}

/// An operator that has begun and not ended.
struct RunningOperator {
  std::vector<c10::IValue> inputs;  ///< a RecordFunction has them at its start only
  bool called_others = false;       ///< operators that it called took time
};

/// The sum of the estimated times of a thread's operators.
struct OperatorClock {
  Hardware hardware;
  double seconds = 0;
  std::vector<RunningOperator> running{};
};

thread_local OperatorClock* clock_of_thread = nullptr;

/// True if what the operator returns is memory of its inputs, not written.
bool returns_views(const at::RecordFunction& function) {
  const auto name = function.operator_name();
  const auto op = name ? c10::Dispatcher::singleton().findSchema(*name) : std::nullopt;
  return op && !op->schema().returns().empty() && std::ranges::all_of(op->schema().returns(), [](const c10::Argument& returned) {
           return returned.alias_info() != nullptr && !returned.alias_info()->isWrite();
         });
}

std::unique_ptr<at::ObserverContext> begin_operator(const at::RecordFunction& function) {
  const auto inputs = function.inputs();
  if (clock_of_thread != nullptr) clock_of_thread->running.push_back({.inputs = std::vector<c10::IValue>(inputs.begin(), inputs.end())});
  return nullptr;
}

void end_operator(const at::RecordFunction& function, at::ObserverContext*) {
  if (clock_of_thread == nullptr || clock_of_thread->running.empty()) return;
  OperatorClock& clock = *clock_of_thread;
  RunningOperator ended = std::move(clock.running.back());
  clock.running.pop_back();
  double seconds = 0;
  if (!ended.called_others) {
    const OperatorCall call{function.name(), returns_views(function), std::move(ended.inputs), function.outputs()};
    seconds = operator_seconds(call, clock.hardware);
  }
  clock.seconds += seconds;
  if ((ended.called_others || seconds > 0) && !clock.running.empty()) clock.running.back().called_others = true;
}

class EstimatedBinding final : public ThreadBinding {
 public:
  EstimatedBinding(OperatorClock& clock, std::shared_ptr<Bytes> bytes)
      : handle_(at::addThreadLocalCallback(at::RecordFunctionCallback(&begin_operator, &end_operator)
                                               .needsInputs(true)
                                               .needsOutputs(true)
                                               .scopes({at::RecordScope::FUNCTION}))) {
    clock_of_thread = &clock;
    charged = std::move(bytes);
  }
  ~EstimatedBinding() override {
    at::removeCallback(handle_);
    clock_of_thread = nullptr;
    charged = nullptr;
  }
  EstimatedBinding(const EstimatedBinding&) = delete;
  EstimatedBinding& operator=(const EstimatedBinding&) = delete;

 private:
  at::CallbackHandle handle_;
};

class EstimatedStamp final : public Stamp {
 public:
  explicit EstimatedStamp(double seconds) : seconds_(seconds) {}
  [[nodiscard]] double seconds_since(const Stamp& earlier) const override {
    return seconds_ - static_cast<const EstimatedStamp&>(earlier).seconds_;
  }

 private:
  double seconds_;
};

class EstimatedDevice final : public Device {
 public:
  explicit EstimatedDevice(const Hardware& hardware)
      : spec_({.kind = DeviceSpec::Kind::cpu, .name = hardware.name, .cores = {}}), clock_{hardware} {}

  [[nodiscard]] const DeviceSpec& spec() const override { return spec_; }
  [[nodiscard]] TraceDevice description() const override { return {name(), clock_.hardware.title + ", estimated", 0, memory_cap()}; }
  [[nodiscard]] std::unique_ptr<ThreadBinding> bind_compute() override { return std::make_unique<EstimatedBinding>(clock_, bytes_); }
  [[nodiscard]] std::unique_ptr<ThreadBinding> bind_copy(Device&) override { return std::make_unique<ThreadBinding>(); }

  [[nodiscard]] at::Tensor empty_like(const at::Tensor& tensor) override {
    return at::empty(tensor.sizes(), tensor.options().device(at::kMeta));
  }
  [[nodiscard]] at::Tensor from_host(const at::Tensor& tensor) override {
    return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta));
  }
  void adopt(const at::Tensor& tensor) override {
    const at::NoGradGuard no_gradients;
    const at::Tensor shape = from_host(tensor.detach());
    tensor.unsafeGetTensorImpl()->shallow_copy_from(shape.getIntrusivePtr());
  }

  [[nodiscard]] MomentPtr now() override { return nullptr; }
  [[nodiscard]] MomentPtr now_of_caller() override { return nullptr; }
  void after(const MomentPtr&) override {}
  [[nodiscard]] std::unique_ptr<const Stamp> stamp() override { return std::make_unique<EstimatedStamp>(clock_.seconds); }

  [[nodiscard]] std::int64_t current_bytes() const override { return bytes_->current; }
  [[nodiscard]] std::int64_t peak_bytes() const override { return bytes_->peak; }
  void reset_peak() override { bytes_->peak = bytes_->current.load(); }
  void set_memory_cap(std::int64_t) override {}
  [[nodiscard]] std::int64_t memory_cap() const override { return clock_.hardware.memory_bytes; }
  [[nodiscard]] std::int64_t refused_bytes() const override { return 0; }

 private:
  DeviceSpec spec_;
  OperatorClock clock_;
  std::shared_ptr<Bytes> bytes_ = std::make_shared<Bytes>();
};

}  // namespace

std::shared_ptr<Device> make_estimated_device(const Hardware& hardware) {
  install_shape_kernels();
  count_meta_tensors();
  return std::make_shared<EstimatedDevice>(hardware);
}

}  // namespace mptune::profiler
