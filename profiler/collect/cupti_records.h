#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "mptune/profiler/trace/trace.h"

namespace mptune {

/// What a device did, as CUPTI numbers things: a stream's number is unique within its context, a correlation within the process.
/// Times are nanoseconds of the recorder's clock; 0 where CUPTI had none.
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
  const char* name = nullptr;  ///< mangled; CUPTI's own, shared by all launches of the kernel
  Kernel kernel;
};

struct CuptiCopy {
  enum class Ends : std::uint8_t { unknown, host_to_device, device_to_host, host_to_host, within_device, peer };
  CuptiWork work;
  std::int64_t bytes = 0;
  std::uint64_t graph_node = 0;
  std::uint32_t source = 0;       ///< CUPTI device, where both_ends
  std::uint32_t destination = 0;  ///< likewise
  Ends ends = Ends::unknown;
  bool both_ends = false;  ///< the record names the devices of both ends
};

/// A call of the runtime or the driver interface.
struct CuptiCall {
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::uint32_t thread = 0;
  std::uint32_t correlation = 0;
  std::uint32_t function = 0;  ///< callback id
  bool driver = false;
};

/// The external id that was on top of the calling thread's stack during a call.
struct CuptiTagged {
  std::uint64_t id = 0;
  std::uint32_t correlation = 0;
};

/// An event recorded on a stream, or a stream's wait for one; `sync_id` joins the two.
struct CuptiEventUse {
  std::uint64_t sync_id = 0;
  std::uint32_t context = 0;
  std::uint32_t stream = 0;
  std::uint32_t correlation = 0;
};

/// What the recorder or the driver did beside the program's own work.
struct CuptiOverhead {
  std::int64_t start = 0;
  std::int64_t end = 0;
  const char* name = nullptr;
  std::uint32_t thread = 0;  ///< 0: of no single thread
  bool recorder = false;     ///< the recorder's own work
};

struct CuptiMarker {
  enum class Place : std::uint8_t { start, end, instant };
  std::int64_t time = 0;
  const char* name = nullptr;    ///< null at the end of a range
  const char* domain = nullptr;  ///< null: the default one
  std::uint32_t id = 0;
  std::uint32_t thread = 0;
  Place place = Place::instant;
};

/// The number that the program gave a marker.
struct CuptiPayload {
  std::uint32_t id = 0;  ///< the marker's
  std::variant<double, std::int64_t, std::uint64_t> value{};
};

struct CuptiDevice {
  std::uint32_t device = 0;
  std::string name;
  int multiprocessors = 0;
  std::int64_t memory_bytes = 0;
};

/// What the buffers held, in no order.
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
  std::int64_t skipped = 0;  ///< records of kinds that mean nothing here
  std::int64_t lost = 0;     ///< estimate of the records behind one that is cut off or of no known kind, itself included
};

/// Appends the records of one buffer that CUPTI filled and frees what they own. Requires an address aligned to 8 bytes. Throws Error where
/// CUPTI is missing.
void decode_buffer(std::span<std::byte> buffer, CuptiRecords& records);

/// From this lane on, lanes carry further streams of a device; below it lie the compute lane and the copies to other devices.
inline constexpr int kStreamLane = 128;

/// What an external id stands for.
struct CuptiTag {
  Tag tag;
  What what = What::kernel;  ///< of the kernels launched under it
};

/// What the records do not say themselves. Times are those of the recorder's clock, which is CUPTI's.
struct CuptiContext {
  std::vector<TraceDevice> devices{};                  ///< what has no name "cuda:<number>" here is appended under that name
  std::unordered_map<std::uint64_t, CuptiTag> tags{};  ///< by external id
  Nanoseconds origin{0};                               ///< start of the recording, becomes time 0
  Nanoseconds ended{0};                                ///< end of the recording, 0: not known
  std::int64_t dropped = 0;
  std::int64_t started_utc_ns = 0;
};

/// Sorts the records into a trace: work of a device on one lane per stream (the busiest stream of kernels is the compute lane, others lie
/// from kStreamLane on), each call that started work and each that started none, edges of stream order and of recorded event waits,
/// markers as ranges (What::action) named "domain:name [payload]". A call that started several events (a graph) names the first. Loss is
/// counted in Trace::quality: what lies more than a second outside of the recording has times of another clock and counts as dropped, work
/// that lies clearly before the call that started it as unmatched, though it stays that call's. Throws Error where CUPTI is missing.
[[nodiscard]] Trace make_trace(CuptiRecords records, const CuptiContext& context);

}  // namespace mptune
