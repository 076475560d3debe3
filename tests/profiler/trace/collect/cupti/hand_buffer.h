#pragma once

#include <cupti.h>

#include <cstring>
#include <span>
#include <vector>

#include "profiler/trace/collect/cupti_records.h"

namespace mptune::testing {

/// A buffer as CUPTI would fill it, record by record.
class HandBuffer {
 public:
  template <typename Record>
  HandBuffer& add(const Record& record) {
    static_assert(sizeof(Record) % sizeof(std::uint64_t) == 0);
    const std::size_t at = words_.size();
    words_.resize(at + sizeof(Record) / sizeof(std::uint64_t));
    std::memcpy(words_.data() + at, &record, sizeof(Record));
    return *this;
  }

  std::span<std::byte> bytes() { return std::as_writable_bytes(std::span(words_)); }

  profiler::CuptiRecords decode() {
    profiler::CuptiRecords records;
    profiler::decode_buffer(bytes(), records);
    return records;
  }

 private:
  std::vector<std::uint64_t> words_;  // aligned as CUPTI's buffers are
};

/// Where and when a piece of work ran.
struct Ran {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint32_t correlation = 0;
  std::uint32_t device = 0;
  std::uint32_t context = 1;
  std::uint32_t stream = 7;
};

template <typename Record>
void set(Record& record, CUpti_ActivityKind kind, const Ran& ran) {
  record.kind = kind;
  record.start = ran.start;
  record.end = ran.end;
  record.deviceId = ran.device;
  record.contextId = ran.context;
  record.streamId = ran.stream;
  record.correlationId = ran.correlation;
}

inline CUpti_ActivityKernel10 kernel(const Ran& ran, const char* name) {
  CUpti_ActivityKernel10 record{};
  set(record, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, ran);
  record.name = name;
  return record;
}

inline CUpti_ActivityMemcpy6 copy(const Ran& ran, CUpti_ActivityMemcpyKind kind, std::uint64_t bytes) {
  CUpti_ActivityMemcpy6 record{};
  set(record, CUPTI_ACTIVITY_KIND_MEMCPY, ran);
  record.copyKind = static_cast<std::uint8_t>(kind);
  record.bytes = bytes;
  return record;
}

inline CUpti_ActivityMemcpyPtoP4 peer_copy(const Ran& ran, std::uint32_t source, std::uint32_t destination, std::uint64_t bytes) {
  CUpti_ActivityMemcpyPtoP4 record{};
  set(record, CUPTI_ACTIVITY_KIND_MEMCPY2, ran);
  record.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
  record.srcDeviceId = source;
  record.dstDeviceId = destination;
  record.bytes = bytes;
  return record;
}

inline CUpti_ActivityMemset4 memset_record(const Ran& ran) {
  CUpti_ActivityMemset4 record{};
  set(record, CUPTI_ACTIVITY_KIND_MEMSET, ran);
  return record;
}

inline CUpti_ActivityAPI call(std::uint64_t start, std::uint64_t end, std::uint32_t correlation, std::uint32_t function,
                              std::uint32_t thread = 11, CUpti_ActivityKind kind = CUPTI_ACTIVITY_KIND_RUNTIME) {
  CUpti_ActivityAPI record{};
  record.kind = kind;
  record.cbid = function;
  record.start = start;
  record.end = end;
  record.threadId = thread;
  record.correlationId = correlation;
  return record;
}

inline CUpti_ActivityAPI launch(std::uint64_t start, std::uint32_t correlation, std::uint32_t thread = 11) {
  return call(start, start + 3, correlation, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, thread);
}

inline CUpti_ActivityExternalCorrelation external(std::uint32_t correlation, std::uint64_t id,
                                                  CUpti_ExternalCorrelationKind kind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0) {
  CUpti_ActivityExternalCorrelation record{};
  record.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
  record.externalKind = kind;
  record.externalId = id;
  record.correlationId = correlation;
  return record;
}

inline CUpti_ActivityCudaEvent2 event_record(std::uint32_t correlation, std::uint64_t sync_id, std::uint32_t context,
                                             std::uint32_t stream) {
  CUpti_ActivityCudaEvent2 record{};
  record.kind = CUPTI_ACTIVITY_KIND_CUDA_EVENT;
  record.correlationId = correlation;
  record.contextId = context;
  record.streamId = stream;
  record.cudaEventSyncId = sync_id;
  return record;
}

inline CUpti_ActivitySynchronization2 stream_wait(
    std::uint32_t correlation, std::uint64_t sync_id, std::uint32_t context, std::uint32_t stream,
    CUpti_ActivitySynchronizationType type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT) {
  CUpti_ActivitySynchronization2 record{};
  record.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  record.type = type;
  record.correlationId = correlation;
  record.contextId = context;
  record.streamId = stream;
  record.cudaEventSyncId = sync_id;
  return record;
}

inline CUpti_ActivityOverhead3 overhead(std::uint64_t start, std::uint64_t end, CUpti_ActivityOverheadKind kind,
                                        std::uint32_t thread = 11) {
  CUpti_ActivityOverhead3 record{};
  record.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
  record.overheadKind = kind;
  record.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
  record.objectId.pt.threadId = thread;
  record.start = start;
  record.end = end;
  return record;
}

inline CUpti_ActivityMarker2 marker(std::uint64_t time, std::uint32_t id, const char* name, CUpti_ActivityFlag flag,
                                    std::uint32_t thread = 11, const char* domain = nullptr) {
  CUpti_ActivityMarker2 record{};
  record.kind = CUPTI_ACTIVITY_KIND_MARKER;
  record.flags = flag;
  record.timestamp = time;
  record.id = id;
  record.name = name;
  record.domain = domain;
  record.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
  record.objectId.pt.threadId = thread;
  return record;
}

inline CUpti_ActivityMarkerData2 marker_data(std::uint32_t id, CUpti_MetricValueKind kind, CUpti_MetricValue payload) {
  CUpti_ActivityMarkerData2 record{};
  record.kind = CUPTI_ACTIVITY_KIND_MARKER_DATA;
  record.id = id;
  record.payloadKind = kind;
  record.payload = payload;
  return record;
}

}  // namespace mptune::testing
