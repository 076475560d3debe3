#pragma once

#include "profiler/trace/values/trace.h"

namespace mptune {

/// Records what host and devices do between start() and stop().
/// One recording at a time; call from one thread.
class Collector {
 public:
  virtual ~Collector() = default;
  /// Throws Error if the device refuses to be traced.
  virtual void start() = 0;
  /// Events are on one clock, ordered by start. Lost events are counted in Trace::quality.
  virtual Trace stop() = 0;
};

}  // namespace mptune
