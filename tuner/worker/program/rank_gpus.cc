#include "tuner/worker/program/rank_gpus.h"

#include <ATen/ATen.h>

#include "profiler/base/device_spec.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/trace/ranks/joined_trace.h"
#include "profiler/trace/values/merge.h"
#include "profiler/trace/values/trace_builder.h"
#include "tuner/runtime/between/tensor_text.h"
#include "tuner/worker/program/recording_file.h"

namespace mptune::tuner {
namespace {

constexpr std::size_t kPartsOfGpus = 3;  // trace file, time, refusal

/// Counts the work of GPUs that no recorder saw: the host's events of such a GPU are launches alone.
std::int64_t launches_of_unrecorded(const Trace& host, const std::vector<RankGpus>& gpus) {
  std::int64_t count = 0;
  for (const Event& event : host.events) {
    const DeviceSpec device = parse_device(host.devices.at(as_index(event.device)).name);
    if (device.kind == DeviceSpec::Kind::cuda && !gpus.at(as_index(device.rank)).trace) ++count;
  }
  return count;
}

}  // namespace

Tensors message_of(const RankGpus& gpus) {
  std::string file;
  if (gpus.trace) {
    profiler::Recording recording;
    recording.trace = *gpus.trace;
    file = file_of(recording);
  }
  return {text_as_tensor(file), at::tensor({static_cast<std::int64_t>(gpus.started.count())}, at::kLong), text_as_tensor(gpus.refusal)};
}

RankGpus gpus_from(const Tensors& message) {
  if (message.size() != kPartsOfGpus || message[1].numel() != 1)
    throw Error("what another rank's GPUs recorded cannot be read", "ranks", "make sure that all ranks run the same build of mptune",
                ExitCode::internal);
  RankGpus gpus;
  if (message[0].numel() > 0) gpus.trace = recording_of(text_in(message[0])).trace;
  gpus.started = Nanoseconds(message[1].item<std::int64_t>());
  gpus.refusal = text_in(message[2]);
  return gpus;
}

Trace with_gpus_of_ranks(const Trace& host, Nanoseconds host_started, const std::vector<RankGpus>& gpus,
                         const std::vector<RankClock>& clocks) {
  std::vector<profiler::RankRecording> recordings;
  std::vector<profiler::AlignedClock> aligned;
  for (int rank = 0; rank < static_cast<int>(gpus.size()); ++rank) {
    const RankGpus& own = gpus[as_index(rank)];
    if (!own.trace) continue;
    const RankClock& clock = clocks.at(as_index(rank));
    recordings.push_back({.file = "", .rank = rank, .ranks = static_cast<int>(gpus.size()), .trace = *own.trace, .communications = {}});
    aligned.push_back({.clock = {clock.common(own.started), clock.since_reference.drift}});
  }
  Trace merged = host;
  if (!recordings.empty()) {
    profiler::JoinedTrace joined = profiler::join_traces(recordings, aligned, profiler::JoinedTags::kept);
    profiler::order_events(joined.trace);
    merged = profiler::merge_traces(host, joined.trace, joined.started - host_started);
  }
  merged.quality.dropped += launches_of_unrecorded(host, gpus);
  return merged;
}

}  // namespace mptune::tuner
