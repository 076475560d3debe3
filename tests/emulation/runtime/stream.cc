#include <algorithm>
#include <functional>
#include <utility>

#include "tests/emulation/machine/attributes.h"
#include "tests/emulation/machine/events.h"
#include "tests/emulation/runtime/operators.h"
#include "tests/emulation/runtime/runtime_call.h"

using namespace emulation;

namespace {

/// A thread that set no device works in the context of its current GPU; one that set a part's context, in that.
Context& context_of_thread() {
  Context* current = current_context();
  return current == nullptr ? primary_context(current_gpu()) : *current;
}

cudaStream_t make(unsigned flags, int priority) {
  open_operators();
  return reinterpret_cast<cudaStream_t>(make_stream(context_of_thread(), {(flags & cudaStreamNonBlocking) == 0, priority}));
}

Event* event_of(cudaEvent_t handle) {
  return reinterpret_cast<Event*>(handle);
}

cudaEvent_t make(unsigned flags) {
  open_operators();
  return reinterpret_cast<cudaEvent_t>(make_event((flags & cudaEventDisableTiming) == 0));
}

Status run_on_host(cudaStream_t handle, std::function<void()> function) {
  Stream* stream = stream_of(handle);
  if (stream == nullptr) return kInvalidHandle;
  Work work;
  work.kind = WorkKind::host;
  work.name = "host function";
  work.compute = std::move(function);
  return submit(*stream, std::move(work));
}

}  // namespace

EMULATED_RUNTIME_FUNCTION cudaStreamCreate(cudaStream_t* made) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaStreamCreate_v3020);
  *made = make(0, 0);
  return call.end(kSuccess);
}

EMULATED_RUNTIME_FUNCTION cudaStreamCreateWithFlags(cudaStream_t* made, unsigned flags) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaStreamCreateWithFlags_v5000);
  *made = make(flags, 0);
  return call.end(kSuccess);
}

EMULATED_RUNTIME_FUNCTION cudaStreamCreateWithPriority(cudaStream_t* made, unsigned flags, int priority) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaStreamCreateWithPriority_v5050);
  *made = make(flags, std::max(kGreatestPriority, std::min(kLeastPriority, priority)));
  return call.end(kSuccess);
}

EMULATED_RUNTIME_FUNCTION cudaStreamDestroy(cudaStream_t handle) {
  EMULATED_RUNTIME_CALL(cudaStreamDestroy_v5050);
  Stream* stream = handle == nullptr ? nullptr : stream_of(handle);
  return call.end(stream == nullptr ? kInvalidHandle : destroy_stream(*stream));
}

EMULATED_RUNTIME_FUNCTION cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  EMULATED_RUNTIME_CALL(cudaStreamGetPriority_v5050);
  const Stream* stream = stream_of(handle);
  if (stream == nullptr) return call.end(kInvalidHandle);
  *priority = stream->priority;
  return call.end(kSuccess);
}

EMULATED_RUNTIME_FUNCTION cudaStreamGetFlags(cudaStream_t handle, unsigned* flags) {
  EMULATED_RUNTIME_CALL(cudaStreamGetFlags_v5050);
  const Stream* stream = stream_of(handle);
  if (stream == nullptr) return call.end(kInvalidHandle);
  *flags = stream->blocking ? cudaStreamDefault : cudaStreamNonBlocking;
  return call.end(kSuccess);
}

EMULATED_RUNTIME_FUNCTION cudaStreamGetId(cudaStream_t handle, unsigned long long* id) {
  EMULATED_RUNTIME_CALL(cudaStreamGetId_v12000);
  const Stream* stream = stream_of(handle);
  if (stream == nullptr) return call.end(kInvalidHandle);
  *id = stream->id;
  return call.end(kSuccess);
}

EMULATED_RUNTIME_FUNCTION cudaStreamGetDevice(cudaStream_t handle, int* gpu) {
  EMULATED_RUNTIME_CALL(cudaStreamGetDevice_v12080);
  const Stream* stream = stream_of(handle);
  if (stream == nullptr) return call.end(kInvalidHandle);
  *gpu = stream->gpu;
  return call.end(kSuccess);
}

EMULATED_RUNTIME_FUNCTION cudaStreamQuery(cudaStream_t handle) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaStreamQuery_v3020);
  Stream* stream = stream_of(handle);
  return call.end(stream == nullptr ? kInvalidHandle : query_stream(*stream));
}

EMULATED_RUNTIME_FUNCTION cudaStreamSynchronize(cudaStream_t handle) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaStreamSynchronize_v3020);
  Stream* stream = stream_of(handle);
  return call.end(stream == nullptr ? kInvalidHandle : host_waits_for_stream(*stream));
}

EMULATED_RUNTIME_FUNCTION cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaStreamWaitEvent_v3020);
  Stream* stream = stream_of(handle);
  return call.end(stream == nullptr ? kInvalidHandle : stream_waits_for_event(*stream, event_of(event)));
}

EMULATED_RUNTIME_FUNCTION cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaLaunchHostFunc_v10000);
  return call.end(run_on_host(stream, [=] { function(data); }));
}

EMULATED_RUNTIME_FUNCTION cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function, void* data, unsigned) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaStreamAddCallback_v5000);
  return call.end(run_on_host(stream, [=] { function(stream, cudaSuccess, data); }));
}

// Nothing is ever captured: cudaStreamBeginCapture is not emulated.
EMULATED_RUNTIME_FUNCTION cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

EMULATED_RUNTIME_FUNCTION cudaStreamGetCaptureInfo(cudaStream_t, cudaStreamCaptureStatus* status, unsigned long long* id,
                                                   cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
                                                   const cudaGraphEdgeData** edges, std::size_t* count) {
  *status = cudaStreamCaptureStatusNone;
  if (id != nullptr) *id = 0;
  if (graph != nullptr) *graph = nullptr;
  if (dependencies != nullptr) *dependencies = nullptr;
  if (edges != nullptr) *edges = nullptr;
  if (count != nullptr) *count = 0;
  return cudaSuccess;
}

EMULATED_RUNTIME_FUNCTION cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  static thread_local cudaStreamCaptureMode current = cudaStreamCaptureModeGlobal;
  std::swap(*mode, current);
  return cudaSuccess;
}

EMULATED_RUNTIME_FUNCTION cudaEventCreate(cudaEvent_t* made) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaEventCreate_v3020);
  *made = make(cudaEventDefault);
  return call.end(kSuccess);
}

EMULATED_RUNTIME_FUNCTION cudaEventCreateWithFlags(cudaEvent_t* made, unsigned flags) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaEventCreateWithFlags_v3020);
  *made = make(flags);
  return call.end(kSuccess);
}

EMULATED_RUNTIME_FUNCTION cudaEventDestroy(cudaEvent_t event) {
  EMULATED_RUNTIME_CALL(cudaEventDestroy_v3020);
  return call.end(destroy_event(event_of(event)));
}

EMULATED_RUNTIME_FUNCTION cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaEventRecord_v3020);
  Stream* stream = stream_of(handle);
  return call.end(stream == nullptr ? kInvalidHandle : record_event(event_of(event), *stream));
}

EMULATED_RUNTIME_FUNCTION cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t handle, unsigned) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaEventRecordWithFlags_v11010);
  Stream* stream = stream_of(handle);
  return call.end(stream == nullptr ? kInvalidHandle : record_event(event_of(event), *stream));
}

EMULATED_RUNTIME_FUNCTION cudaEventQuery(cudaEvent_t event) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaEventQuery_v3020);
  return call.end(query_event(event_of(event)));
}

EMULATED_RUNTIME_FUNCTION cudaEventSynchronize(cudaEvent_t event) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaEventSynchronize_v3020);
  return call.end(host_waits_for_event(event_of(event)));
}

EMULATED_RUNTIME_FUNCTION cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaEventElapsedTime_v12080);
  return call.end(elapsed_time(milliseconds, event_of(begin), event_of(end)));
}
