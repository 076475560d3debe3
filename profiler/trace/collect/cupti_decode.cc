#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "profiler/base/index.h"
#include "profiler/trace/collect/cupti_api.h"
#include "profiler/trace/collect/cupti_records.h"

namespace mptune::profiler {
namespace {

template <typename Record>
CuptiWork work_of(const Record& record) {
  return {static_cast<std::int64_t>(record.start),
          static_cast<std::int64_t>(record.end),
          record.deviceId,
          record.contextId,
          record.streamId,
          record.correlationId};
}

void add(const CUpti_ActivityKernel10& record, CuptiRecords& records) {
  const Kernel kernel{.context = static_cast<int>(record.contextId),
                      .stream = static_cast<int>(record.streamId),
                      .grid = {record.gridX, record.gridY, record.gridZ},
                      .block = {record.blockX, record.blockY, record.blockZ},
                      .registers_per_thread = record.registersPerThread,
                      .static_shared_bytes = record.staticSharedMemory,
                      .dynamic_shared_bytes = record.dynamicSharedMemory};
  records.kernels.push_back({work_of(record), record.name, kernel});
}

CuptiCopy::Ends ends_of(std::uint8_t kind) {
  using Ends = CuptiCopy::Ends;
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOA:
      return Ends::host_to_device;
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOH:
      return Ends::device_to_host;
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOA:
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOD:
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOA:
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD:
      return Ends::within_device;
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOH:
      return Ends::host_to_host;
    case CUPTI_ACTIVITY_MEMCPY_KIND_PTOP:
      return Ends::peer;
    default:
      return Ends::unknown;
  }
}

void add(const CUpti_ActivityMemcpy6& record, CuptiRecords& records) {
  records.copies.push_back({.work = work_of(record),
                            .bytes = static_cast<std::int64_t>(record.bytes),
                            .graph_node = record.graphNodeId,
                            .ends = ends_of(record.copyKind)});
}

void add(const CUpti_ActivityMemcpyPtoP4& record, CuptiRecords& records) {
  records.copies.push_back({.work = work_of(record),
                            .bytes = static_cast<std::int64_t>(record.bytes),
                            .graph_node = record.graphNodeId,
                            .source = record.srcDeviceId,
                            .destination = record.dstDeviceId,
                            .ends = CuptiCopy::Ends::peer,
                            .both_ends = true});
}

void add(const CUpti_ActivityMemset4& record, CuptiRecords& records) {
  records.memsets.push_back(work_of(record));
}

void add(const CUpti_ActivityAPI& record, CuptiRecords& records) {
  records.calls.push_back({static_cast<std::int64_t>(record.start), static_cast<std::int64_t>(record.end), record.threadId,
                           record.correlationId, record.cbid, record.kind == CUPTI_ACTIVITY_KIND_DRIVER});
}

void add(const CUpti_ActivityExternalCorrelation& record, CuptiRecords& records) {
  if (record.externalKind == CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0)
    records.tags.push_back({record.externalId, record.correlationId});
  else
    ++records.skipped;
}

void add(const CUpti_ActivitySynchronization2& record, CuptiRecords& records) {
  // The host's waits are recorded as calls.
  if (record.type == CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT)
    records.stream_waits.push_back({record.cudaEventSyncId, record.contextId, record.streamId, record.correlationId});
  else
    ++records.skipped;
}

void add(const CUpti_ActivityCudaEvent2& record, CuptiRecords& records) {
  records.event_records.push_back({record.cudaEventSyncId, record.contextId, record.streamId, record.correlationId});
}

const char* overhead_name(CUpti_ActivityOverheadKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_OVERHEAD_DRIVER_COMPILER:
      return "driver compiler";
    case CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH:
      return "recorder: buffer flush";
    case CUPTI_ACTIVITY_OVERHEAD_CUPTI_INSTRUMENTATION:
      return "recorder: instrumentation";
    case CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE:
      return "recorder: resources";
    case CUPTI_ACTIVITY_OVERHEAD_ACTIVITY_BUFFER_REQUEST:
      return "recorder: buffer request";
    case CUPTI_ACTIVITY_OVERHEAD_UVM_ACTIVITY_INIT:
      return "recorder: unified memory";
    case CUPTI_ACTIVITY_OVERHEAD_RUNTIME_TRIGGERED_MODULE_LOADING:
      return "module loading";
    case CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING:
      return "lazy function loading";
    case CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL:
      return "command buffer full";
    default:
      return "overhead of unknown kind";
  }
}

void add(CUpti_ActivityOverhead3& record, CuptiRecords& records) {
  std::free(record.overheadData);
  record.overheadData = nullptr;
  const char* name = overhead_name(record.overheadKind);
  const std::uint32_t thread = record.objectKind == CUPTI_ACTIVITY_OBJECT_THREAD ? record.objectId.pt.threadId : 0;
  records.overheads.push_back({static_cast<std::int64_t>(record.start), static_cast<std::int64_t>(record.end), name, thread,
                               std::string_view(name).starts_with("recorder")});
}

void add(const CUpti_ActivityMarker2& record, CuptiRecords& records) {
  using Place = CuptiMarker::Place;
  const Place place = (record.flags & CUPTI_ACTIVITY_FLAG_MARKER_START) != 0 ? Place::start
                      : (record.flags & CUPTI_ACTIVITY_FLAG_MARKER_END) != 0 ? Place::end
                                                                             : Place::instant;
  const std::uint32_t thread = record.objectKind == CUPTI_ACTIVITY_OBJECT_THREAD ? record.objectId.pt.threadId : 0;
  records.markers.push_back({static_cast<std::int64_t>(record.timestamp), record.name, record.domain, record.id, thread, place});
}

void add(const CUpti_ActivityMarkerData2& record, CuptiRecords& records) {
  switch (record.payloadKind) {
    case CUPTI_METRIC_VALUE_KIND_INT64:
      return void(records.payloads.push_back({record.id, record.payload.metricValueInt64}));
    case CUPTI_METRIC_VALUE_KIND_UINT64:
      return void(records.payloads.push_back({record.id, record.payload.metricValueUint64}));
    case CUPTI_METRIC_VALUE_KIND_DOUBLE:
      // A marker that has only a colour looks like this.
      if (record.payload.metricValueUint64 == 0) return;
      return void(records.payloads.push_back({record.id, record.payload.metricValueDouble}));
    default:
      ++records.skipped;
  }
}

void add(const CUpti_ActivityDevice5& record, CuptiRecords& records) {
  records.devices.push_back({record.id, record.name == nullptr ? "" : record.name, static_cast<int>(record.numMultiprocessors),
                             static_cast<std::int64_t>(record.globalMemorySize)});
}

// Returns the size of the record, 0 if its kind is not used here.
template <typename Record>
std::size_t add_as(CUpti_Activity* record, CuptiRecords& records) {
  add(*reinterpret_cast<Record*>(record), records);
  return sizeof(Record);
}

std::size_t add_record(CUpti_Activity* record, CuptiRecords& records) {
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    case CUPTI_ACTIVITY_KIND_KERNEL:
      return add_as<CUpti_ActivityKernel10>(record, records);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return add_as<CUpti_ActivityMemcpy6>(record, records);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return add_as<CUpti_ActivityMemcpyPtoP4>(record, records);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return add_as<CUpti_ActivityMemset4>(record, records);
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return add_as<CUpti_ActivityAPI>(record, records);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return add_as<CUpti_ActivityExternalCorrelation>(record, records);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return add_as<CUpti_ActivitySynchronization2>(record, records);
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
      return add_as<CUpti_ActivityCudaEvent2>(record, records);
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      return add_as<CUpti_ActivityOverhead3>(record, records);
    case CUPTI_ACTIVITY_KIND_MARKER:
      return add_as<CUpti_ActivityMarker2>(record, records);
    case CUPTI_ACTIVITY_KIND_MARKER_DATA:
      return add_as<CUpti_ActivityMarkerData2>(record, records);
    case CUPTI_ACTIVITY_KIND_DEVICE:
      return add_as<CUpti_ActivityDevice5>(record, records);
    default:
      ++records.skipped;
      return 0;
  }
}

// True if the loaded CUPTI has the record sizes of this build; later versions may have longer records.
bool knows_sizes(const CuptiApi& cupti) {
  std::uint32_t version = 0;
  return cupti.cuptiGetVersion(&version) == CUPTI_SUCCESS && version == CUPTI_API_VERSION;
}

// Estimates the number of records in bytes that could not be read. Most records are launches.
std::int64_t lost_in(std::size_t unread_bytes) {
  constexpr std::size_t kLaunch = sizeof(CUpti_ActivityKernel10) + sizeof(CUpti_ActivityAPI) + sizeof(CUpti_ActivityExternalCorrelation);
  static_assert(kLaunch == 280);
  return static_cast<std::int64_t>(unread_bytes / kLaunch) + 1;
}

}  // namespace

void decode_buffer(std::span<std::byte> buffer, CuptiRecords& records) {
  if (buffer.empty()) return;
  const CuptiApi& cupti = cupti_api();
  auto* bytes = reinterpret_cast<std::uint8_t*>(buffer.data());
  CUpti_Activity* record = nullptr;
  std::size_t read = 0, last_size = 1;
  CUptiResult result;
  while ((result = cupti.cuptiActivityGetNextRecord(bytes, buffer.size(), &record)) == CUPTI_SUCCESS) {
    last_size = add_record(record, records);
    read = as_index(reinterpret_cast<std::uint8_t*>(record) - bytes) + last_size;
  }
  const std::size_t unread = buffer.size() - std::min(read, buffer.size());
  // CUPTI silently skips a truncated record at the end of a buffer.
  const bool is_cut = unread > 0 && last_size > 0 && (read == 0 || knows_sizes(cupti));
  if (result != CUPTI_ERROR_MAX_LIMIT_REACHED || is_cut) records.lost += lost_in(unread);
}

}  // namespace mptune::profiler
