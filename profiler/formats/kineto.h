#pragma once

#include <string>
#include <vector>

#include "mptune/profiler/formats/text_input.h"
#include "mptune/profiler/trace/trace.h"

namespace mptune {

/// Reads a trace of PyTorch's profiler (Kineto, Chrome JSON), gzip or not, in its present form or that of 2021.
/// Kernels (What::kernel, NCCL's What::collective), copies, memsets and synchronisation become events without tags; streams become lanes,
/// that which computes longest kComputeLane, and what overlaps on a stream takes a lane beside it (StreamLanes), as synchronisation does;
/// `cuda_runtime` and `cuda_driver` rows become launches, with event -1 where they started nothing; `ProfilerStep#N` become steps, which
/// last until the device work they launched has ended or the next begins; other user annotations become ranges (What::action) on the device
/// their thread launches on, -1 where there is none. Operators are left out. What the file leaves out is tolerated: rows without time or of
/// negative duration are counted in `quality`. Throws Error: what read_chrome_events throws, no device work, more than 4096 devices, longer
/// than 14 months, copies of 2^60 bytes.
[[nodiscard]] Trace read_kineto(const std::string& path);

/// The same of text already at hand.
[[nodiscard]] Trace read_kineto(TextInput& input);

/// Writes one Kineto JSON file per device, which is how its readers take GPUs to be ranks, and returns their names: of "run.json" and two
/// devices "run.rank0.json" and "run.rank1.json". The work of lane l is on stream 7 + l, launches are `cuda_runtime` rows, steps
/// `ProfilerStep#N`, ranges user annotations on the thread that launches most of the device's computing. Waits are left out, since readers
/// count them as work, and what the host or the recorder did, since it occupies no device. Copies are in the file of the device that made
/// them. Edges, tags and memory samples have no place in the format. Throws Error where a file can't be written.
std::vector<std::string> write_kineto(const Trace& trace, const std::string& path);
/// The names of these files.
[[nodiscard]] std::vector<std::string> kineto_names(const std::string& path, std::size_t devices);

}  // namespace mptune
