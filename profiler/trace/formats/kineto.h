#pragma once

#include <string>
#include <vector>

#include "profiler/trace/formats/text_input.h"
#include "profiler/trace/values/communication.h"
#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// Reads a trace of PyTorch's profiler (Kineto, Chrome JSON), gzip or not, in today's form or that of 2021:
/// - Kernels (EventKind::kernel, NCCL's EventKind::collective), copies, memsets and synchronisation become events without tags.
/// - Streams become lanes (StreamLanes). Synchronisation gets a lane of its own.
/// - `cuda_runtime` and `cuda_driver` rows become launches; event is -1 for calls that launched nothing.
/// - `ProfilerStep#N` becomes a step. It lasts until the device work that it launched has ended, at most until the next step.
/// - Other user annotations become ranges (EventKind::action) on the device that their thread launches on, -1 if it launches nothing.
/// - Device work without a launch, or earlier than it, is `unmatched`; copies of unified memory have none. It is only `cut_off` if a call
///   before the recording launched it, or if it ended before the first step.
/// - A last step whose last launches have no work ran on after the recording: it is left out if there are others, and its launches are
///   `cut_off`, else `unmatched`.
/// - Work stamped up to kMostClockSkew before its launch still has that launch. Work stamped 0 has no times. Work that overruns the next of
///   its stream and can't be right (overruns.h) is cut there and noted.
/// - Devices are named by their family (TracedProcesses): "cuda:0", "xpu:0", "npu:0". In a trace of XLA (JAX), which has no categories, the
///   streams of its GPUs ("gpu:0") are the work; it holds no launches.
/// - In a trace without work of a GPU, threads are the devices and operators their work (KinetoOperators). Else operators are left out.
/// - Rows without time or with a negative duration are counted in `quality`.
/// Throws Error: what read_chrome_events throws, no work, a trace of Ascend's profiler, more than 4096 devices, longer than 14 months,
/// copies of 2^60 bytes.
[[nodiscard]] Trace read_kineto(const std::string& path);

/// Does the same for text that is already open.
[[nodiscard]] Trace read_kineto(TextInput& input);

/// Does the same, and also reads the process's rank and what it did with other processes. Communications of kernels that no recorded call
/// launched are left out; `step` is the number of the step in which the thread launched the communication.
[[nodiscard]] RankRecording read_kineto_rank(const std::string& path);
[[nodiscard]] RankRecording read_kineto_rank(TextInput& input);

/// Reads the recordings in a file that a tool merged from several ranks' files (kineto_processes.h), or else the one process's recording.
/// The rank is -1 if the file does not say it. Throws what read_kineto throws.
[[nodiscard]] std::vector<RankRecording> read_kineto_ranks(const std::string& path);

/// Writes one Kineto JSON file per device, since readers of the format expect one per rank, and returns the names of the files:
/// "run.rank0.json" and "run.rank1.json" for "run.json" and two devices.
/// - Lane l becomes stream 7 + l, launches become `cuda_runtime` rows, steps become `ProfilerStep#N`.
/// - Ranges become user annotations on the thread that launches most of the device's compute.
/// - A copy is in the file of the device that sends it.
/// - For read_kineto_export alone: waits, work of the host and the recorder as rows without a stream, as readers would count them as
///   work; kinds, tags and edges as args.
/// - Left out: memory samples, ranges of no device, contexts and streams of kernels, losses.
/// Throws Error if a file can't be written.
std::vector<std::string> write_kineto(const Trace& trace, const std::string& path);
/// Returns the names of the files that write_kineto writes.
[[nodiscard]] std::vector<std::string> kineto_names(const std::string& path, std::size_t devices);

}  // namespace mptune::profiler
