#pragma once

#include <string>

#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// Writes NVTXT, a text format that Nsight Systems' ImportNvtxt turns into a report. Throws Error if the file can't be written.
/// Every event and range becomes a range on a thread of its device and lane, numbered 1000 * (device + 1) + lane.
/// Steps are on lane 998, as are markers; actions are on lane 999. Times are relative, in nanoseconds.
/// The format cannot hold details of kernels or sizes of copies.
void write_nvtxt(const Trace& trace, const std::string& path);

}  // namespace mptune::profiler
