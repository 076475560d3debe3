#pragma once

/// Events of CUDA, behind the handles of runtime and driver: each holds the mark of its last recording.

#include <memory>

#include "tests/emulation/machine/stream.h"

namespace emulation {

struct Event;

[[nodiscard]] EMULATION_EXPORT Event* make_event(bool timed);
EMULATION_EXPORT Status destroy_event(Event* event);

/// All functions return kInvalidHandle for what is no event.
EMULATION_EXPORT Status record_event(Event* event, Stream& stream);
/// kNotReady: the stream has not passed it. An event that was never recorded is done.
EMULATION_EXPORT Status query_event(Event* event);
EMULATION_EXPORT Status host_waits_for_event(Event* event);
EMULATION_EXPORT Status stream_waits_for_event(Stream& stream, Event* event);
/// In milliseconds, with the GPU's resolution of half a microsecond.
EMULATION_EXPORT Status elapsed_time(float* milliseconds, Event* begin, Event* end);

/// Waits of the host, which observers are told.
EMULATION_EXPORT Status host_waits_for_stream(Stream& stream);
EMULATION_EXPORT Status host_waits_for_gpu(int gpu);
EMULATION_EXPORT Status query_stream(Stream& stream);

}  // namespace emulation
