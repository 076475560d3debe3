#include <algorithm>
#include <cmath>

#include "planner/plan/file/plan_file.h"
#include "profiler/base/activity.h"
#include "profiler/base/device_spec.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/machine.h"
#include "profiler/device/precise_sleep.h"
#include "profiler/trace/store/store.h"
#include "tuner/worker/program/rank_recording.h"
#include "tuner/worker/program/ranks.h"
#include "tuner/worker/program/requests.h"
#include "tuner/worker/program/step_recorder.h"

namespace mptune::tuner {

namespace {

TraceDevice capped(TraceDevice device, const TrainingSetup& setup) {
  if (const auto cap = setup.memory_bytes.find(device.name); cap != setup.memory_bytes.end()) device.memory_bytes = cap->second;
  return device;
}

std::string warning_of(const std::vector<std::string>& refusals) {
  std::string text;
  for (std::size_t r = 0; r < refusals.size(); ++r) {
    if (refusals[r].empty()) continue;
    const std::string whose = refusals.size() > 1 ? " of rank " + std::to_string(r) : "";
    text +=
        (text.empty() ? "" : "; ") + ("GPUs" + whose + " are shown as the host gave them work, not as they worked (" + refusals[r] + ")");
  }
  return text;
}

/// What was recorded, on rank 0's clock, and by rank the reason why GPUs were not recorded. On the other ranks the trace is empty.
struct Seen {
  Trace trace;
  std::vector<std::string> refusals;
};

Seen seen_by_ranks(StepRecorder& recorder, const TrainingRun& run, const std::vector<RankClock>& clocks, int rank) {
  const std::vector<Tensors> gpu_messages = run.pipeline().on_first_rank(message_of(recorder.stop_gpus()));
  const std::vector<Tensors> logs = run.pipeline().on_first_rank(message_of(recorder.host().take()));
  if (rank > 0) return {};
  std::vector<int> rank_of_device;
  for (const DeviceSpec& device : parse_device_names(run.pipeline().plan().devices)) rank_of_device.push_back(device.rank);
  std::vector<RankGpus> gpus;
  Seen seen;
  for (int r = 0; r < static_cast<int>(logs.size()); ++r) {
    HostLog log = log_from(logs[as_index(r)]);
    set_to_first_clock(log, r, clocks, rank_of_device);
    recorder.host().put(log);
    gpus.push_back(gpus_from(gpu_messages.at(as_index(r))));
    seen.refusals.push_back(gpus.back().refusal);
  }
  seen.trace = with_gpus_of_ranks(recorder.host().stop(), recorder.host().started(), gpus, clocks);
  return seen;
}

Recorded record_on(const Devices& devices, const RecordRequest& request, const std::shared_ptr<RankGroup>& ranks, const Replies& reply) {
  const int rank = ranks ? ranks->rank() : 0;
  profiler::Recording recording;
  if (!request.profile_path.empty() && rank == 0) recording = profiler::read_recording(request.profile_path);
  Model model = model_of(request.setup).model;
  const Batch batch = batch_of(request.setup, model);
  TrainingRun run(request.setup, std::move(model), request.plan, batch, devices, ranks);
  // Computing with NaN and infinity takes other times than training.
  if (!std::isfinite(run.step().loss))
    throw Error("the loss of the first step is not finite", request.setup.model,
                "lower --lr, or give data that the model can take with --data", ExitCode::infeasible);
  (void)run.step();

  std::vector<TraceDevice> described;
  for (TraceDevice& device : run.pipeline().trace_devices()) described.push_back(capped(std::move(device), request.setup));
  StepRecorder recorder(described, profiler::make_gpu_collector, rank);
  RankClockWatch clocks(ranks);
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
  // All ranks take the same steps.
  if (run.pipeline().sum_over_ranks({recorder.gpus() != nullptr ? 1.0 : 0.0})[0] > 0) {
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
  const std::vector<RankClock> rank_clocks = clocks.stop();
  const std::vector<std::int64_t> peak_bytes = peaks_of(run.pipeline());
  Seen seen = ranks ? seen_by_ranks(recorder, run, rank_clocks, rank) : Seen{recorder.stop(), {recorder.refusal()}};
  if (rank > 0) return {};
  for (std::size_t d = 0; d < std::min(peak_bytes.size(), seen.trace.devices.size()); ++d) seen.trace.devices[d].peak_bytes = peak_bytes[d];
  recording.trace = std::move(seen.trace);
  recording.plan_json = plan_to_json(request.plan, {});
  recording.environment = machine_to_json(this_machine());
  recording.step_off_s = median(off);
  recording.step_on_s = median(on);
  const Activity activity("writing", request.path, kPatienceOfLoading);
  profiler::write_recording(recording, request.path, /*force=*/true);
  return {recording.step_off_s, recording.step_on_s, peak_bytes, off, warning_of(seen.refusals), clock_error_s(rank_clocks)};
}

}  // namespace

void record(const RecordRequest& request, const Replies& reply) {
  const std::shared_ptr<RankGroup> ranks = ranks_for(request);
  for_ranks(ranks, [&] {
    const Devices devices = devices_of(request.plan, ranks.get());
    run_plan(devices, request.setup, [&] { reply(record_on(devices, request, ranks, reply)); });
  });
}

}  // namespace mptune::tuner
