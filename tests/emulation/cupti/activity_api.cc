/// CUPTI's activity API.

#include <cupti.h>

#include "tests/emulation/cupti/attributes.h"
#include "tests/emulation/cupti/buffers.h"
#include "tests/emulation/cupti/clock.h"
#include "tests/emulation/cupti/devices.h"
#include "tests/emulation/cupti/external_ids.h"
#include "tests/emulation/cupti/overheads.h"
#include "tests/emulation/cupti/record_walk.h"
#include "tests/emulation/cupti/recorder.h"
#include "tests/emulation/cupti/switches.h"
#include "tests/emulation/cupti/threads.h"
#include "tests/emulation/cupti/usable.h"
#include "tests/emulation/machine/machine.h"

using namespace emulation::cupti;

namespace {

bool flushes_lazily() {
  static const bool lazy = emulation::setting("LAZY_FLUSH", 0) != 0;
  return lazy;
}

CUptiResult enable(CUpti_ActivityKind kind) {
  const CUptiResult result = switches().enable(kind);
  if (result == CUPTI_SUCCESS) attach();
  return result;
}

CUptiResult enable_call(emulation::Domain domain, CUpti_CallbackId id, bool yes) {
  if (!is_usable()) return CUPTI_ERROR_UNKNOWN;
  switches().enable_call(domain, id, yes);
  attach();
  return CUPTI_SUCCESS;
}

}  // namespace

extern "C" {

CUptiResult cuptiGetTimestamp(uint64_t* timestamp) {
  if (timestamp == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *timestamp = now();
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc function) {
  if (function == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (!is_usable()) return CUPTI_ERROR_UNKNOWN;
  use_timestamps_of(function);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  if (!is_usable()) return CUPTI_ERROR_UNKNOWN;
  const CUptiResult result = enable(kind);
  if (result == CUPTI_SUCCESS && kind == CUPTI_ACTIVITY_KIND_DEVICE) expect_devices();
  return result;
}

CUptiResult cuptiActivityEnableAndDump(CUpti_ActivityKind kind) {
  if (!is_usable()) return CUPTI_ERROR_UNKNOWN;
  const CUptiResult result = enable(kind);
  if (result == CUPTI_SUCCESS && kind == CUPTI_ACTIVITY_KIND_DEVICE) write_devices();
  return result;
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  if (!is_usable()) return CUPTI_ERROR_UNKNOWN;
  if (kind == CUPTI_ACTIVITY_KIND_DEVICE) write_due_devices();
  return switches().disable(kind);
}

CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId id, uint8_t yes) {
  return enable_call(emulation::Domain::runtime, id, yes != 0);
}

CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId id, uint8_t yes) {
  return enable_call(emulation::Domain::driver, id, yes != 0);
}

// Accepted without effect: the machine tells of waits alone, not of queries.
CUptiResult cuptiActivityEnableAllSyncRecords(uint8_t) {
  return is_usable() ? CUPTI_SUCCESS : CUPTI_ERROR_UNKNOWN;
}

CUptiResult cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t yes) {
  if (!is_usable()) return CUPTI_ERROR_UNKNOWN;
  record_event_times(yes != 0);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete) {
  if (request == nullptr || complete == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  buffers().use_callbacks(request, complete);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityFlushAll(uint32_t flag) {
  if (!is_usable()) return CUPTI_ERROR_UNKNOWN;
  if (!buffers().has_callbacks()) return CUPTI_ERROR_INVALID_OPERATION;
  const std::uint64_t began = now();
  write_due_devices();
  const bool forced = (flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) != 0;
  buffers().flush(!forced && flushes_lazily());
  if (const auto overhead = overhead_of_flush(began, now())) buffers().write(*overhead);
  return CUPTI_SUCCESS;
}

// Accepted without effect: full buffers are given back at once.
CUptiResult cuptiActivityFlushPeriod(uint32_t) {
  return is_usable() ? CUPTI_SUCCESS : CUPTI_ERROR_UNKNOWN;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  if (dropped == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *dropped = buffers().take_dropped();
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, CUpti_Activity** record) {
  if (buffer == nullptr || record == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  return next_record(buffer, valid, *record);
}

CUptiResult cuptiActivityGetAttribute(CUpti_ActivityAttribute attribute, size_t* size, void* value) {
  return is_usable() ? read_attribute(attribute, size, value) : CUPTI_ERROR_UNKNOWN;
}

CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute attribute, size_t* size, void* value) {
  return is_usable() ? write_attribute(attribute, size, value) : CUPTI_ERROR_UNKNOWN;
}

CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType type) {
  if (!is_usable()) return CUPTI_ERROR_UNKNOWN;
  if (type >= CUPTI_ACTIVITY_THREAD_ID_TYPE_SIZE) return CUPTI_ERROR_NOT_SUPPORTED;
  use_system_thread_numbers(type == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetThreadIdType(CUpti_ActivityThreadIdType* type) {
  if (type == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *type = uses_system_thread_numbers() ? CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM : CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t id) {
  if (!is_usable()) return CUPTI_ERROR_UNKNOWN;
  if (!is_external_kind(kind)) return CUPTI_ERROR_INVALID_PARAMETER;
  push_external_id(kind, id);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t* last) {
  if (!is_usable()) return CUPTI_ERROR_UNKNOWN;
  if (!is_external_kind(kind)) return CUPTI_ERROR_INVALID_PARAMETER;
  const auto popped = pop_external_id(kind);
  if (!popped.has_value()) return CUPTI_ERROR_QUEUE_EMPTY;
  if (last != nullptr) *last = *popped;
  return CUPTI_SUCCESS;
}
}
