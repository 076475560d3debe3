#include "tests/emulation/machine/copies.h"
#include "tests/emulation/machine/driver_call.h"
#include "tests/emulation/machine/events.h"
#include "tests/emulation/machine/parts.h"

using namespace emulation;

namespace {

Event* event_of(CUevent handle) {
  return reinterpret_cast<Event*>(handle);
}

CUresult make(const DriverCall& call, CUstream* made, unsigned flags, int priority) {
  if (current_context() == nullptr) return call.end(kInvalidContext);
  *made = reinterpret_cast<CUstream>(make_stream(*current_context(), {(flags & CU_STREAM_NON_BLOCKING) == 0, priority}));
  return call.end(kSuccess);
}

}  // namespace

EMULATED_DRIVER_FUNCTION cuStreamCreate(CUstream* made, unsigned flags) {
  EMULATED_DRIVER_CALL(cuStreamCreate);
  return make(call, made, flags, 0);
}

EMULATED_DRIVER_FUNCTION cuStreamCreateWithPriority(CUstream* made, unsigned flags, int priority) {
  EMULATED_DRIVER_CALL(cuStreamCreateWithPriority);
  return make(call, made, flags, priority);
}

EMULATED_DRIVER_FUNCTION cuStreamDestroy(CUstream handle) {
  EMULATED_DRIVER_CALL(cuStreamDestroy);
  Stream* stream = stream_of(handle);
  return call.end(stream == nullptr ? kInvalidHandle : destroy_stream(*stream));
}

EMULATED_DRIVER_FUNCTION cuStreamQuery(CUstream handle) {
  EMULATED_DRIVER_CALL(cuStreamQuery);
  Stream* stream = stream_of(handle);
  return call.end(stream == nullptr ? kInvalidHandle : query_stream(*stream));
}

EMULATED_DRIVER_FUNCTION cuStreamSynchronize(CUstream handle) {
  EMULATED_DRIVER_CALL(cuStreamSynchronize);
  Stream* stream = stream_of(handle);
  return call.end(stream == nullptr ? kInvalidHandle : host_waits_for_stream(*stream));
}

EMULATED_DRIVER_FUNCTION cuStreamWaitEvent(CUstream handle, CUevent event, unsigned) {
  EMULATED_DRIVER_CALL(cuStreamWaitEvent);
  Stream* stream = stream_of(handle);
  return call.end(stream == nullptr ? kInvalidHandle : stream_waits_for_event(*stream, event_of(event)));
}

EMULATED_DRIVER_FUNCTION cuStreamGetId(CUstream handle, unsigned long long* id) {
  EMULATED_DRIVER_CALL(cuStreamGetId);
  const Stream* stream = stream_of(handle);
  if (stream == nullptr) return call.end(kInvalidHandle);
  *id = facts_of(*stream).id;
  return call.end(kSuccess);
}

EMULATED_DRIVER_FUNCTION cuStreamGetCtx(CUstream handle, CUcontext* context) {
  EMULATED_DRIVER_CALL(cuStreamGetCtx);
  const Stream* stream = stream_of(handle);
  if (stream == nullptr) return call.end(kInvalidHandle);
  *context = reinterpret_cast<CUcontext>(stream->context);
  return call.end(kSuccess);
}

EMULATED_DRIVER_FUNCTION cuStreamIsCapturing(CUstream, CUstreamCaptureStatus* status) {
  EMULATED_DRIVER_CALL(cuStreamIsCapturing);
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  return call.end(kSuccess);
}

EMULATED_DRIVER_FUNCTION cuEventCreate(CUevent* made, unsigned flags) {
  EMULATED_DRIVER_CALL(cuEventCreate);
  *made = reinterpret_cast<CUevent>(make_event((flags & CU_EVENT_DISABLE_TIMING) == 0));
  return call.end(kSuccess);
}

EMULATED_DRIVER_FUNCTION cuEventDestroy(CUevent event) {
  EMULATED_DRIVER_CALL(cuEventDestroy);
  return call.end(destroy_event(event_of(event)));
}

EMULATED_DRIVER_FUNCTION cuEventRecord(CUevent event, CUstream handle) {
  EMULATED_DRIVER_CALL(cuEventRecord);
  Stream* stream = stream_of(handle);
  return call.end(stream == nullptr ? kInvalidHandle : record_event(event_of(event), *stream));
}

EMULATED_DRIVER_FUNCTION cuEventQuery(CUevent event) {
  EMULATED_DRIVER_CALL(cuEventQuery);
  return call.end(query_event(event_of(event)));
}

EMULATED_DRIVER_FUNCTION cuEventSynchronize(CUevent event) {
  EMULATED_DRIVER_CALL(cuEventSynchronize);
  return call.end(host_waits_for_event(event_of(event)));
}

EMULATED_DRIVER_FUNCTION cuEventElapsedTime(float* milliseconds, CUevent begin, CUevent end) {
  EMULATED_DRIVER_CALL(cuEventElapsedTime);
  return call.end(elapsed_time(milliseconds, event_of(begin), event_of(end)));
}
