#include "profiler/trace/store/leaf_rows.h"

#include <algorithm>
#include <string>

#include "profiler/base/device_spec.h"
#include "profiler/base/index.h"
#include "profiler/trace/store/schema.h"

namespace mptune::profiler {
namespace {

// Placeholder for events without a recorded Kernel: a launch of one thread.
const Kernel kNoKernel{.grid = {1, 1, 1}, .block = {1, 1, 1}};

int kind_of(const Copy& copy) {
  if (copy.unified)
    return copy.source < 0 ? kCopyUnifiedHostToDevice : copy.destination < 0 ? kCopyUnifiedDeviceToHost : kCopyUnifiedWithin;
  if (copy.source < 0 && copy.destination < 0) return kCopyUnknown;
  if (copy.source < 0) return kCopyHostToDevice;
  if (copy.destination < 0) return kCopyDeviceToHost;
  return copy.source == copy.destination ? kCopyWithinDevice : kCopyPeer;
}

}  // namespace

std::int64_t process_of(const TraceDevice& device) {
  const auto spec = find_device(device.name);
  return process_of_rank(spec ? spec->rank : 0);
}

// Columns that are the same in all rows are literals in the statements: binding them takes longer.
LeafRows::LeafRows(SQLite::Database& database, const Trace& trace, const Placement& placement)
    : trace_(trace),
      placement_(placement),
      kernel_(database,
              "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (rowid, start, end, deviceId, contextId, greenContextId, streamId, correlationId, "
              "globalPid, demangledName, shortName, launchType, cacheConfig, registersPerThread, gridX, gridY, gridZ, blockX, blockY, "
              "blockZ, staticSharedMemory, dynamicSharedMemory, localMemoryPerThread, localMemoryTotal, gridId, "
              "tensorSizeMinusOneElements)",
              "(?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?, 1, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, ?, '[]')"),
      memcpy_(database,
              "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY (rowid, start, end, deviceId, contextId, greenContextId, streamId, correlationId, "
              "globalPid, bytes, copyKind, srcKind, dstKind, srcDeviceId, srcContextId, dstDeviceId, dstContextId, copyCount)",
              "(?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1)"),
      memset_(database,
              "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET (rowid, start, end, deviceId, contextId, greenContextId, streamId, correlationId, "
              "globalPid, value, bytes, memKind)",
              "(?, ?, ?, ?, ?, 0, ?, ?, ?, 0, 0, ?)"),
      wait_(database,
            "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (rowid, start, end, deviceId, contextId, greenContextId, streamId, "
            "correlationId, globalPid, syncType, eventId)",
            "(?, ?, ?, ?, ?, 0, ?, ?, ?, " + std::to_string(kStreamWait) + ", ?)"),
      overhead_(database, "INSERT INTO PROFILER_OVERHEAD (rowid, start, end, globalTid, nameId, overheadType)", "(?, ?, ?, ?, ?, ?)") {
  for (const TraceDevice& device : trace.devices) {
    on_gpu_.push_back(device_kind(device.name) == DeviceSpec::Kind::cuda);
    pids_.push_back(global_pid(process_of(device)));
  }
}

void LeafRows::operator()(std::int64_t start, std::int64_t end, std::size_t index, const Correlation& correlation,
                          std::int64_t global_tid) {
  const Event& event = trace_.events[index];
  const Place place = placement_(event);
  if (event.kind == EventKind::copy)
    copy(start, end, index, correlation);
  else if (event.kind == EventKind::memset)
    memset_(index + 1, start, end, place.device, place.context, place.stream, correlation, pid(place.device), memory_kind(place.device));
  else if (event.kind == EventKind::sync)
    wait_(index + 1, start, end, place.device, place.context, place.stream, correlation, pid(place.device), index);
  else if (event.kind == EventKind::profiler)
    overhead(start, end, index, global_tid);
  else
    kernel(start, end, index, correlation);
}

void LeafRows::flush() {
  for (BulkInsert* insert : {&kernel_, &memcpy_, &memset_, &wait_, &overhead_}) insert->flush();
}

std::int64_t LeafRows::pid(int device) const {
  return device < 0 ? global_pid(process_of_rank(0)) : pids_[as_index(device)];
}

int LeafRows::memory_kind(int device) const {
  const bool on_gpu = device >= 0 && on_gpu_[as_index(device)];
  return on_gpu ? kMemoryDevice : kMemoryPageable;
}

void LeafRows::kernel(std::int64_t start, std::int64_t end, std::size_t index, const Correlation& correlation) {
  const Event& event = trace_.events[index];
  const Place place = placement_(event);
  const Kernel* recorded = kernel_of(trace_, event);
  const Kernel& k = recorded == nullptr ? kNoKernel : *recorded;
  kernel_(index + 1, start, end, place.device, place.context, place.stream, correlation, pid(place.device), event.name + 1, event.name + 1,
          k.registers_per_thread, k.grid[0], k.grid[1], k.grid[2], k.block[0], k.block[1], k.block[2], k.static_shared_bytes,
          k.dynamic_shared_bytes, index);
}

void LeafRows::copy(std::int64_t start, std::int64_t end, std::size_t index, const Correlation& correlation) {
  const Event& event = trace_.events[index];
  const Place place = placement_(event);
  const Copy copy = event.detail < 0 ? Copy{} : trace_.copies[as_index(event.detail)];
  const int kind = kind_of(copy);
  // Only peer copies name source and destination; Nsight's exports leave them NULL for other copies.
  const auto end_of = [&](std::int64_t value) { return kind == kCopyPeer ? std::optional<std::int64_t>(value) : std::nullopt; };
  memcpy_(index + 1, start, end, place.device, place.context, place.stream, correlation, pid(place.device), copy.bytes, kind,
          memory_kind(copy.source), memory_kind(copy.destination), end_of(copy.source), end_of(placement_.context(copy.source)),
          end_of(copy.destination), end_of(placement_.context(copy.destination)));
}

void LeafRows::overhead(std::int64_t start, std::int64_t end, std::size_t index, std::int64_t global_tid) {
  const std::int32_t name = trace_.events[index].name;
  const auto known = std::find(kOverheadLabels.begin(), kOverheadLabels.end(), trace_.names[as_index(name)]);
  const auto type = known == kOverheadLabels.end() ? kOverheadUnknown : static_cast<std::int64_t>(known - kOverheadLabels.begin());
  overhead_(index + 1, start, end, global_tid, name + 1, type);
}

}  // namespace mptune::profiler
