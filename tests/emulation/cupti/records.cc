#include "tests/emulation/cupti/records.h"

#include <atomic>

#include "tests/emulation/cupti/threads.h"

namespace emulation::cupti {

namespace {

constexpr std::uint32_t kNone = CUPTI_SYNCHRONIZATION_INVALID_VALUE;

template <typename Record>
void place(Record& record, CUpti_ActivityKind kind, const WorkRecord& work) {
  record.kind = kind;
  record.start = static_cast<std::uint64_t>(work.begin);
  record.end = static_cast<std::uint64_t>(work.end);
  record.deviceId = static_cast<std::uint32_t>(work.stream.gpu);
  record.contextId = work.stream.context;
  record.streamId = work.stream.id;
  record.correlationId = work.correlation;
}

std::uint8_t memory_kind(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::pageable:
      return CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE;
    case MemoryKind::pinned:
      return CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
    case MemoryKind::device:
      return CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  }
  return CUPTI_ACTIVITY_MEMORY_KIND_UNKNOWN;
}

std::uint8_t copy_kind(const WorkRecord& work) {
  if (work.kind == WorkKind::peer_copy) return CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
  const bool from_device = work.source_kind == MemoryKind::device;
  const bool to_device = work.destination_kind == MemoryKind::device;
  if (from_device) return to_device ? CUPTI_ACTIVITY_MEMCPY_KIND_DTOD : CUPTI_ACTIVITY_MEMCPY_KIND_DTOH;
  return to_device ? CUPTI_ACTIVITY_MEMCPY_KIND_HTOD : CUPTI_ACTIVITY_MEMCPY_KIND_HTOH;
}

template <typename Record>
void fill_copy(Record& record, const WorkRecord& work) {
  record.copyKind = copy_kind(work);
  record.srcKind = memory_kind(work.source_kind);
  record.dstKind = memory_kind(work.destination_kind);
  record.flags = CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC;
  record.bytes = work.bytes;
  record.channelType = CUPTI_CHANNEL_TYPE_ASYNC_MEMCPY;
}

// A GPU's primary context, as the machine numbers it.
std::uint32_t context_of(int gpu) {
  return static_cast<std::uint32_t>(gpu) + 1;
}

CUpti_ActivitySynchronizationType type_of(WaitKind kind) {
  switch (kind) {
    case WaitKind::stream_waits_for_event:
      return CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT;
    case WaitKind::host_waits_for_event:
      return CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE;
    case WaitKind::host_waits_for_stream:
      return CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE;
    case WaitKind::host_waits_for_context:
      return CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE;
  }
  return CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_UNKNOWN;
}

}  // namespace

CUpti_ActivityKernel10 kernel_record(const WorkRecord& work) {
  static std::atomic<std::int64_t> launches = 0;
  constexpr std::uint16_t kRegisters = 32;  // of no meaning, but kernels without registers don't exist
  CUpti_ActivityKernel10 record{};
  place(record, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, work);
  record.registersPerThread = kRegisters;
  record.completed = record.end;
  record.gridX = static_cast<std::int32_t>(work.blocks[0]);
  record.gridY = static_cast<std::int32_t>(work.blocks[1]);
  record.gridZ = static_cast<std::int32_t>(work.blocks[2]);
  record.blockX = static_cast<std::int32_t>(work.threads[0]);
  record.blockY = static_cast<std::int32_t>(work.threads[1]);
  record.blockZ = static_cast<std::int32_t>(work.threads[2]);
  record.gridId = ++launches;
  record.name = work.name;
  record.queued = CUPTI_TIMESTAMP_UNKNOWN;
  record.submitted = CUPTI_TIMESTAMP_UNKNOWN;
  record.launchType = CUPTI_ACTIVITY_LAUNCH_TYPE_REGULAR;
  record.channelType = CUPTI_CHANNEL_TYPE_COMPUTE;
  return record;
}

CUpti_ActivityMemcpy6 copy_record(const WorkRecord& work) {
  CUpti_ActivityMemcpy6 record{};
  place(record, CUPTI_ACTIVITY_KIND_MEMCPY, work);
  fill_copy(record, work);
  record.runtimeCorrelationId = work.correlation;
  record.copyCount = 1;
  return record;
}

CUpti_ActivityMemcpyPtoP4 peer_copy_record(const WorkRecord& work) {
  CUpti_ActivityMemcpyPtoP4 record{};
  place(record, CUPTI_ACTIVITY_KIND_MEMCPY2, work);
  fill_copy(record, work);
  record.srcDeviceId = static_cast<std::uint32_t>(work.source_gpu);
  record.dstDeviceId = static_cast<std::uint32_t>(work.destination_gpu);
  record.srcContextId = context_of(work.source_gpu);
  record.dstContextId = context_of(work.destination_gpu);
  return record;
}

CUpti_ActivityMemset4 fill_record(const WorkRecord& work) {
  CUpti_ActivityMemset4 record{};
  place(record, CUPTI_ACTIVITY_KIND_MEMSET, work);
  record.value = static_cast<std::uint32_t>(work.value);
  record.bytes = work.bytes;
  record.flags = CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC;
  record.memoryKind = memory_kind(work.destination_kind);
  record.channelType = CUPTI_CHANNEL_TYPE_COMPUTE;
  return record;
}

CUpti_ActivityAPI call_record(const ApiRecord& call, std::uint64_t begin, std::uint64_t end) {
  CUpti_ActivityAPI record{};
  record.kind = call.domain == Domain::runtime ? CUPTI_ACTIVITY_KIND_RUNTIME : CUPTI_ACTIVITY_KIND_DRIVER;
  record.cbid = static_cast<CUpti_CallbackId>(call.id);
  record.start = begin;
  record.end = end;
  record.processId = call.process;
  record.threadId = thread_number();
  record.correlationId = call.correlation;
  record.returnValue = static_cast<std::uint32_t>(call.status);
  return record;
}

CUpti_ActivityExternalCorrelation external_record(CUpti_ExternalCorrelationKind kind, std::uint64_t id, std::uint32_t correlation) {
  CUpti_ActivityExternalCorrelation record{};
  record.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
  record.externalKind = kind;
  record.externalId = id;
  record.correlationId = correlation;
  return record;
}

CUpti_ActivitySynchronization2 wait_record(const WaitRecord& wait, std::uint64_t begin, std::uint64_t end) {
  const bool of_event = wait.kind == WaitKind::stream_waits_for_event || wait.kind == WaitKind::host_waits_for_event;
  const bool of_stream = wait.kind == WaitKind::stream_waits_for_event || wait.kind == WaitKind::host_waits_for_stream;
  CUpti_ActivitySynchronization2 record{};
  record.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  record.type = type_of(wait.kind);
  record.start = begin;
  record.end = end;
  record.correlationId = wait.correlation;
  record.contextId = wait.stream.context;
  record.streamId = of_stream ? wait.stream.id : kNone;
  record.cudaEventId = of_event ? wait.event : kNone;
  record.cudaEventSyncId = of_event ? wait.mark : kNone;
  return record;
}

CUpti_ActivityCudaEvent2 event_record(const EventRecord& event, bool with_time) {
  CUpti_ActivityCudaEvent2 record{};
  record.kind = CUPTI_ACTIVITY_KIND_CUDA_EVENT;
  record.correlationId = event.correlation;
  record.contextId = event.stream.context;
  record.streamId = event.stream.id;
  record.eventId = event.event;
  record.deviceId = static_cast<std::uint32_t>(event.stream.gpu);
  record.deviceTimestamp = with_time ? static_cast<std::uint64_t>(event.device_time) : CUPTI_TIMESTAMP_UNKNOWN;
  record.cudaEventSyncId = event.mark;
  return record;
}

}  // namespace emulation::cupti
