#include <cmath>

#include "planner/plan_file.h"
#include "profiler/base/activity.h"
#include "profiler/base/error.h"
#include "profiler/base/machine.h"
#include "profiler/device/device_list.h"
#include "profiler/device/precise_sleep.h"
#include "profiler/measure/measure.h"
#include "profiler/store/store.h"
#include "tuner/worker/requests.h"
#include "tuner/worker/step_recorder.h"

namespace mptune::tuner {

namespace {

TraceDevice capped(TraceDevice device, const TrainingSetup& setup) {
  if (const auto cap = setup.memory_bytes.find(device.name); cap != setup.memory_bytes.end()) device.memory_bytes = cap->second;
  return device;
}

std::string warning_of(const StepRecorder& recorder) {
  if (recorder.refusal().empty()) return "";
  return "GPUs are shown as the host gave them work, not as they worked (" + recorder.refusal() + ")";
}

}  // namespace

void measure(const MeasureRequest& request, const Replies& reply) {
  TrainingSetup real = request.setup;
  real.sleep_profile.clear();  // a sleeping device's costs are those of the real model on a core
  const Model model = model_of(real).model;
  profiler::MeasureOptions options;
  for (const std::string& pool : real.pools) options.pools.push_back(parse_pool(pool));
  options.devices = profiler::measured_devices(parse_device_names(real.devices), options.pools);
  options.whole_machine = real.whole_machine;
  options.link = real.link;
  for (const DeviceSpec& device : options.devices) {
    const auto cap = real.memory_bytes.find(device.name);
    options.memory_bytes.push_back(cap == real.memory_bytes.end() ? 0 : cap->second);
  }
  options.batch = batch_size_of(real, model);
  options.optimizer = real.optimizer;
  options.budget_s = request.budget_s;
  options.keeps_budget = true;
  options.channels_last = request.channels_last;
  options.replaced_kernels = request.replaced_kernels;
  options.threads = request.threads;
  options.progress = [&](const std::string& what, double fraction) { reply(Progress{what, fraction}); };
  options.warn = [&](const std::string& warning) { reply(Warned{warning}); };
  profiler::Recording recording;
  recording.profile = profiler::measure_profile(model, batch_of(real, model), options);
  recording.environment = machine_to_json(this_machine());
  profiler::write_recording(recording, request.path, /*force=*/true);
}

namespace {

Recorded record_on(const Devices& devices, const RecordRequest& request, const Replies& reply) {
  profiler::Recording recording;
  if (!request.profile_path.empty()) recording = profiler::read_recording(request.profile_path);
  Model model = model_of(request.setup).model;
  const Batch batch = batch_of(request.setup, model);
  TrainingRun run(request.setup, std::move(model), request.plan, batch, devices);
  // Numbers that are none take other times than those of training.
  if (!std::isfinite(run.step().loss))
    throw Error("the loss of the first step is not finite", request.setup.model,
                "lower --lr, or give data that the model can take with --data", ExitCode::infeasible);
  (void)run.step();

  std::vector<TraceDevice> described;
  for (TraceDevice& device : run.pipeline().trace_devices()) described.push_back(capped(std::move(device), request.setup));
  StepRecorder recorder(described);
  Samples off, on;
  const auto plain_step = [&](int i) { off.values.push_back({run.step().seconds, i, 0, 0}); };
  const auto recorded_step = [&](int i) {
    run.pipeline().record(&recorder.host(), recorder.gpus());
    const auto start = profiler::SteadyClock::now();
    on.values.push_back({run.step().seconds, i, 1, 0});
    recorder.host().add_step(static_cast<int>(run.pipeline().steps()) - 1, start, profiler::SteadyClock::now());
    run.pipeline().record(nullptr);
    reply(Progress{"recording", static_cast<double>(i + 1) / request.steps});
  };
  if (recorder.gpus() != nullptr) {
    // A GPU stays slower once its recorder has run, and is much slower in the first step with it.
    for (int i = 0; i < request.steps; ++i) plain_step(i);
    recorder.start();
    (void)run.step();
    (void)recorder.stop();
    recorder.start();
    for (int i = 0; i < request.steps; ++i) recorded_step(i);
  } else {
    recorder.start();
    // Steps with and without recording take turns, so that drift of the machine is not taken for the cost of recording.
    for (int i = 0; i < request.steps; ++i) {
      plain_step(i);
      recorded_step(i);
    }
  }
  recording.trace = recorder.stop();
  recording.plan_json = plan_to_json(request.plan, {});
  recording.environment = machine_to_json(this_machine());
  recording.step_off_s = median(off);
  recording.step_on_s = median(on);
  const Activity activity("writing", request.path, kPatienceOfLoading);
  profiler::write_recording(recording, request.path, /*force=*/true);
  return {recording.step_off_s, recording.step_on_s, run.pipeline().peak_bytes(), off, warning_of(recorder)};
}

}  // namespace

void record(const RecordRequest& request, const Replies& reply) {
  const Devices devices = devices_of(request.plan);
  run_plan(devices, request.setup, [&] { reply(record_on(devices, request, reply)); });
}

}  // namespace mptune::tuner
