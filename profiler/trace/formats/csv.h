#pragma once

#include <string>

#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// Writes a table with one row per event, quoted as in RFC 4180:
///
///     start_ns,duration_ns,device,lane,what,name,step,stage,microbatch,layer,replica,bytes,source,destination
///     120,40,cuda:0,0,forward,conv1,0,0,3,0,0,,,
///
/// Fields that do not apply are empty. Ranges, launches, edges and memory samples are left out. Throws Error if the file can't be written.
void write_csv(const Trace& trace, const std::string& path);

}  // namespace mptune::profiler
