#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// Work of a device with CUPTI's numbers: streams are unique within a context, correlations within the process.
/// Times are nanoseconds of CUPTI's clock; 0: CUPTI recorded none.
struct CuptiWork {
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::uint32_t device = 0;
  std::uint32_t context = 0;
  std::uint32_t stream = 0;
  std::uint32_t correlation = 0;
};

struct CuptiKernel {
  CuptiWork work;
  const char* name = nullptr;  ///< mangled; owned by CUPTI, one pointer for all launches of the kernel
  Kernel kernel;
};

struct CuptiCopy {
  enum class Ends : std::uint8_t { unknown, host_to_device, device_to_host, host_to_host, within_device, peer };
  CuptiWork work;
  std::int64_t bytes = 0;
  std::uint64_t graph_node = 0;
  std::uint32_t source = 0;       ///< CUPTI device, valid if both_ends
  std::uint32_t destination = 0;  ///< CUPTI device, valid if both_ends
  Ends ends = Ends::unknown;
  bool both_ends = false;  ///< the record names source and destination
};

/// A call of the runtime API or the driver API.
struct CuptiCall {
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::uint32_t thread = 0;
  std::uint32_t correlation = 0;
  std::uint32_t function = 0;  ///< callback id
  bool driver = false;
};

/// External id at the top of the calling thread's stack during a call.
struct CuptiTagged {
  std::uint64_t id = 0;
  std::uint32_t correlation = 0;
};

/// The record of a CUDA event on a stream, or a stream's wait for it; both have the same `sync_id`.
struct CuptiEventUse {
  std::uint64_t sync_id = 0;
  std::uint32_t context = 0;
  std::uint32_t stream = 0;
  std::uint32_t correlation = 0;
};

/// Extra work of the recorder or the driver.
struct CuptiOverhead {
  std::int64_t start = 0;
  std::int64_t end = 0;
  const char* name = nullptr;
  std::uint32_t thread = 0;  ///< 0: not of one thread
  bool recorder = false;     ///< the recorder's own work
};

struct CuptiMarker {
  enum class Place : std::uint8_t { start, end, instant };
  std::int64_t time = 0;
  const char* name = nullptr;    ///< null at the end of a range
  const char* domain = nullptr;  ///< null: the default domain
  std::uint32_t id = 0;
  std::uint32_t thread = 0;
  Place place = Place::instant;
};

/// The payload that the program gave a marker.
struct CuptiPayload {
  std::uint32_t id = 0;  ///< of the marker
  std::variant<double, std::int64_t, std::uint64_t> value{};
};

struct CuptiDevice {
  std::uint32_t device = 0;
  std::string name;
  int multiprocessors = 0;
  std::int64_t memory_bytes = 0;
};

/// Contents of the buffers, unordered.
struct CuptiRecords {
  std::vector<CuptiKernel> kernels;
  std::vector<CuptiCopy> copies;
  std::vector<CuptiWork> memsets;
  std::vector<CuptiCall> calls;
  std::vector<CuptiTagged> tags;
  std::vector<CuptiEventUse> event_records;
  std::vector<CuptiEventUse> stream_waits;
  std::vector<CuptiOverhead> overheads;
  std::vector<CuptiMarker> markers;
  std::vector<CuptiPayload> payloads;
  std::vector<CuptiDevice> devices;
  std::int64_t skipped = 0;  ///< number of records of unused kinds
  std::int64_t lost = 0;     ///< estimated number of records from the first truncated or unknown one on
};

/// Appends the records of one buffer of CUPTI and frees what they own. Requires: aligned to 8 bytes. Throws Error if CUPTI is missing.
void decode_buffer(std::span<std::byte> buffer, CuptiRecords& records);

/// First lane of a device's further streams. Below it are the compute lane and the lanes of copies to other devices.
inline constexpr int kStreamLane = 128;

/// Meaning of an external id.
struct CuptiTag {
  Tag tag;
  EventKind kind = EventKind::kernel;  ///< kind of the kernels launched under it
};

/// Facts about a recording that its records do not contain. Times are those of CUPTI's clock.
struct CuptiContext {
  std::vector<TraceDevice> devices{};                  ///< GPUs without an entry "cuda:<number>" are appended
  std::unordered_map<std::uint64_t, CuptiTag> tags{};  ///< by external id
  Nanoseconds origin{0};                               ///< start of the recording: time 0 of the trace
  Nanoseconds ended{0};                                ///< end of the recording; 0: unknown
  std::int64_t dropped = 0;
  std::int64_t started_utc_ns = 0;
};

/// Makes a trace of the records. Throws Error if CUPTI is missing.
/// - Each stream gets a lane: the stream with the longest kernel time the compute lane, others lanes from kStreamLane on.
/// - Calls become launches, with or without an event. A call that launched several events (a CUDA graph) names the first.
/// - Edges are the order of streams and recorded waits for events.
/// - Markers become ranges (EventKind::action) named "domain:name [payload]".
/// - Work more than a second outside of the recording has times of another clock and counts as dropped.
/// - Work that starts clearly before its launch counts as unmatched; it keeps its launch.
[[nodiscard]] Trace make_trace(CuptiRecords records, const CuptiContext& context);

}  // namespace mptune::profiler
