#pragma once

#include <string>

#include "mptune/profiler/trace/trace.h"

namespace mptune {

/// Writes NVTXT, the text that Nsight Systems' ImportNvtxt makes a report of: every event and range is a range of a thread of its device
/// and lane ("1000 * (device + 1) + lane"; steps and actions on lanes 998 and 999), steps are markers as well. No kernel details, copies
/// without bytes: the format has no place for them. Times are relative, in nanoseconds. Throws Error where the file can't be written.
void write_nvtxt(const Trace& trace, const std::string& path);

}  // namespace mptune
