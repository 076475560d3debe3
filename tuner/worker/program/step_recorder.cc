#include "tuner/worker/program/step_recorder.h"

#include <algorithm>

#include "profiler/base/device_spec.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/trace/values/merge.h"

namespace mptune::tuner {

namespace {
bool is_gpu(const TraceDevice& device) {
  return device_kind(device.name) == DeviceSpec::Kind::cuda;
}
}  // namespace

StepRecorder::StepRecorder(std::vector<TraceDevice> devices, const MakeGpuCollector& make_gpus, int rank) : host_(devices) {
  std::erase_if(devices, [&](const TraceDevice& device) { return !is_gpu(device) || parse_device(device.name).rank != rank; });
  if (devices.empty()) return;
  for (TraceDevice& device : devices) device.name = without_rank(device.name);
  attempt([&] { gpus_ = make_gpus(std::move(devices)); });
}

void StepRecorder::attempt(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    refusal_ = error.what();
    gpus_.reset();
  }
}

void StepRecorder::start() {
  host_.start();
  if (gpus_) attempt([this] { gpus_->start(); });
}

RankGpus StepRecorder::stop_gpus() {
  RankGpus recorded{.trace = {}, .started = {}, .refusal = refusal_};
  if (gpus_) recorded.trace = gpus_->stop();
  if (gpus_) recorded.started = gpus_->started();
  return recorded;
}

Trace StepRecorder::stop() {
  Trace seen = host_.stop();
  // The host's events of a GPU are the launches of its work.
  if (!refusal_.empty())
    seen.quality.dropped += std::count_if(seen.events.begin(), seen.events.end(),
                                          [&](const Event& event) { return is_gpu(seen.devices.at(as_index(event.device))); });
  if (!gpus_) return seen;
  const Trace timed = gpus_->stop();
  return profiler::merge_traces(seen, timed, gpus_->started() - host_.started());
}

}  // namespace mptune::tuner
