#include "tests/emulation/cupti/overheads.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>

#include "tests/emulation/cupti/switches.h"
#include "tests/emulation/cupti/threads.h"
#include "tests/emulation/machine/machine.h"

namespace emulation::cupti {

namespace {

std::uint64_t spacing() {
  static const auto calls = static_cast<std::uint64_t>(setting("OVERHEAD_RECORDS", 0));
  return calls;
}

Overhead overhead(CUpti_ActivityOverheadKind kind, std::uint64_t begin, std::uint64_t end) {
  Overhead record{};
  record.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
  record.overheadKind = kind;
  record.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
  record.objectId.pt.processId = static_cast<std::uint32_t>(getpid());
  record.objectId.pt.threadId = thread_number();
  record.start = begin;
  record.end = end;
  return record;
}

std::optional<Overhead> overhead_if_enabled(CUpti_ActivityOverheadKind kind, std::uint64_t begin, std::uint64_t end) {
  if (spacing() == 0 || !switches().records(CUPTI_ACTIVITY_KIND_OVERHEAD)) return std::nullopt;
  return overhead(kind, begin, end);
}

}  // namespace

std::optional<Overhead> overhead_of_request(std::uint64_t begin, std::uint64_t end) {
  return overhead_if_enabled(CUPTI_ACTIVITY_OVERHEAD_ACTIVITY_BUFFER_REQUEST, begin, end);
}

std::optional<Overhead> overhead_of_flush(std::uint64_t begin, std::uint64_t end) {
  return overhead_if_enabled(CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH, begin, end);
}

std::optional<Overhead> overhead_of_call(std::uint64_t begin, std::uint64_t end, std::uint32_t correlation) {
  constexpr std::array kInTurn{CUPTI_ACTIVITY_OVERHEAD_CUPTI_INSTRUMENTATION, CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE,
                               CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING, CUPTI_ACTIVITY_OVERHEAD_RUNTIME_TRIGGERED_MODULE_LOADING,
                               CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL,   CUPTI_ACTIVITY_OVERHEAD_DRIVER_COMPILER};
  static std::atomic<std::uint64_t> calls = 0;
  if (spacing() == 0) return std::nullopt;
  const std::uint64_t call = ++calls;
  if (call % spacing() != 0) return std::nullopt;
  const CUpti_ActivityOverheadKind kind = kInTurn[call / spacing() % kInTurn.size()];
  std::optional<Overhead> record = overhead_if_enabled(kind, begin, end);
  if (!record.has_value()) return std::nullopt;
  record->correlationId = correlation;
  if (kind == CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL)
    record->overheadData = std::calloc(1, sizeof(CUpti_ActivityOverheadCommandBufferFullData));
  return record;
}

}  // namespace emulation::cupti
