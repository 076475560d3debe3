#include "tuner/worker/step_recorder.h"

#include <algorithm>

#include "profiler/base/device_spec.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/trace/merge.h"

namespace mptune::tuner {

namespace {
bool is_gpu(const TraceDevice& device) {
  return device_kind(device.name) == DeviceSpec::Kind::cuda;
}
}  // namespace

StepRecorder::StepRecorder(std::vector<TraceDevice> devices, const MakeGpuCollector& make_gpus) : host_(devices) {
  if (std::none_of(devices.begin(), devices.end(), is_gpu)) return;
  std::erase_if(devices, std::not_fn(is_gpu));
  attempt([&] { gpus_ = make_gpus(std::move(devices)); });
}

void StepRecorder::attempt(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    refusal_ = std::string(error.what()) + ": " + error.where() + "; " + error.remedy();
    gpus_.reset();
  }
}

void StepRecorder::start() {
  host_.start();
  if (gpus_) attempt([this] { gpus_->start(); });
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
