#pragma once

#include <string>

#include "profiler/trace/store/store.h"

namespace mptune::tuner {

/// Returns a recording as the bytes of a trace file, to send it to another rank.
[[nodiscard]] std::string file_of(const profiler::Recording& recording);
/// Reads a recording from these bytes. Throws what read_recording() throws.
[[nodiscard]] profiler::Recording recording_of(const std::string& file);

}  // namespace mptune::tuner
