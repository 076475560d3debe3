#include "tests/gpu/recorders.h"

#include <kineto/ActivityType.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "profiler/base/index.h"
#include "profiler/device/precise_sleep.h"
#include "profiler/trace/values/intervals.h"
#include "tuner/worker/program/step_recorder.h"

namespace mptune::testing {
namespace {

namespace kineto = torch::autograd::profiler;
namespace kineto_config = torch::profiler::impl;

double busy_seconds(std::vector<profiler::TimeInterval> events) {
  return static_cast<double>(profiler::total(profiler::merge(std::move(events))).count()) * 1e-9;
}

/// As `mptune profile` records.
class OurRecorder final : public Recorder {
 public:
  explicit OurRecorder(const Pipeline& pipeline) : recorder_(pipeline.trace_devices()) {}

  void start(tuner::TrainingRun& run) override {
    recorder_.start();
    (void)step(run);
    (void)recorder_.stop();
    recorder_.start();
  }

  double step(tuner::TrainingRun& run) override {
    run.pipeline().record(&recorder_.host(), recorder_.gpus());
    const auto start = profiler::SteadyClock::now();
    const double seconds = run.step().seconds;
    recorder_.host().add_step(static_cast<int>(run.pipeline().steps()) - 1, start, profiler::SteadyClock::now());
    run.pipeline().record(nullptr);
    return seconds;
  }

  Seen stop() override {
    const Trace trace = recorder_.stop();
    Seen seen;
    std::vector<profiler::TimeInterval> busy;
    for (const Event& event : trace.events) {
      const bool on_gpu = trace.devices[as_index(event.device)].name.starts_with("cuda:");
      if (!on_gpu || !(is_compute(event.kind) || event.kind == EventKind::copy)) continue;
      ++seen.events;
      seen.kernels += event.kind == EventKind::copy || event.kind == EventKind::memset ? 0 : 1;
      busy.push_back({event.start, event.end()});
    }
    seen.untagged = trace.quality.untagged;
    seen.dropped = trace.quality.dropped + trace.quality.zero_stamped;
    seen.busy_s = busy_seconds(std::move(busy));
    std::strncpy(seen.refusal.data(), recorder_.refusal().c_str(), seen.refusal.size() - 1);
    return seen;
  }

 private:
  tuner::StepRecorder recorder_;
};

/// As torch.profiler records a training loop: what PyTorch calls on every thread, or, GPU only, what CUDA does.
class KinetoRecorder final : public Recorder {
 public:
  explicit KinetoRecorder(bool gpu_only) {
    activities_.insert(kineto_config::ActivityType::CUDA);
    if (!gpu_only) activities_.insert(kineto_config::ActivityType::CPU);
  }

  void start(tuner::TrainingRun&) override {
    kineto_config::ExperimentalConfig more;
    more.profile_all_threads = true;  // the runtime's threads are as the main thread of a Python loop
    const kineto_config::ProfilerConfig config(kineto_config::ProfilerState::KINETO, false, false, false, false, false, more);
    kineto::prepareProfiler(config, activities_);
    kineto::enableProfiler(config, activities_);
  }

  Seen stop() override {
    const auto result = kineto::disableProfiler();
    Seen seen;
    std::vector<profiler::TimeInterval> busy;
    for (const kineto::KinetoEvent& event : result->events()) {
      const auto kind = static_cast<libkineto::ActivityType>(event.activityType());
      const bool kernel = kind == libkineto::ActivityType::CONCURRENT_KERNEL;
      if (!kernel && kind != libkineto::ActivityType::GPU_MEMCPY && kind != libkineto::ActivityType::GPU_MEMSET) continue;
      ++seen.events;
      seen.kernels += kernel ? 1 : 0;
      const auto start = Nanoseconds{static_cast<std::int64_t>(event.startNs())};
      busy.push_back({start, start + Nanoseconds{static_cast<std::int64_t>(event.durationNs())}});
    }
    seen.busy_s = busy_seconds(std::move(busy));
    return seen;
  }

 private:
  std::set<kineto_config::ActivityType> activities_;
};

}  // namespace

const std::array<RecorderChoice, kChoices> kAllChoices{{
    {"none", [](const Pipeline&) -> std::unique_ptr<Recorder> { return std::make_unique<Recorder>(); }},
    {"mptune", [](const Pipeline& pipeline) -> std::unique_ptr<Recorder> { return std::make_unique<OurRecorder>(pipeline); }},
    {"Kineto", [](const Pipeline&) -> std::unique_ptr<Recorder> { return std::make_unique<KinetoRecorder>(false); }},
    {"Kineto, GPU only", [](const Pipeline&) -> std::unique_ptr<Recorder> { return std::make_unique<KinetoRecorder>(true); }},
}};

}  // namespace mptune::testing
