#include "profiler/model/kernels/operator_times.h"

#include <ATen/record_function.h>

#include <chrono>
#include <memory>

namespace mptune::profiler {

namespace {

thread_local OperatorTimes* recorder = nullptr;

double clock_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

struct OperatorCallbacks {
  static std::unique_ptr<at::ObserverContext> start(const at::RecordFunction&) {
    if (recorder != nullptr) recorder->running_.push_back({clock_s(), 0});
    return nullptr;
  }

  static void end(const at::RecordFunction& function, at::ObserverContext*) {
    // An operator that began before the recorder has no start.
    if (recorder == nullptr || recorder->running_.empty()) return;
    const OperatorTimes::Running ended = recorder->running_.back();
    recorder->running_.pop_back();
    const double whole_s = clock_s() - ended.start_s;
    recorder->seconds_[function.name()] += whole_s - ended.called_s;
    if (!recorder->running_.empty()) recorder->running_.back().called_s += whole_s;
  }
};

OperatorTimes::OperatorTimes()
    : handle_(at::addThreadLocalCallback(
          at::RecordFunctionCallback(&OperatorCallbacks::start, &OperatorCallbacks::end).scopes({at::RecordScope::FUNCTION}))) {
  recorder = this;
}

OperatorTimes::~OperatorTimes() {
  at::removeCallback(handle_);
  recorder = nullptr;
}

}  // namespace mptune::profiler
