#pragma once

/// The emulated machine, as its parts see it: GPUs whose memory is host memory and whose streams are queues with a thread each. All state
/// is in this library, libcuda.so.1; runtime, bridge, CUPTI and NCCL are thin over it. Every function may be called by any thread.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#define EMULATION_EXPORT __attribute__((visibility("default")))

namespace emulation {

/// A CUDA error code; driver and runtime number those that both have alike. 0: success.
using Status = int;

/// Nanoseconds of CLOCK_MONOTONIC, or where it says so of the GPUs' own clock.
using Nanoseconds = std::int64_t;

/// A text that lives as long as the process; equal texts have one address.
EMULATION_EXPORT const char* intern(std::string_view text);

/// Says on stderr that `function` is not emulated, once per name, and aborts where EMULATED_STRICT is set. Returns "not supported" (801).
EMULATION_EXPORT Status not_emulated(const char* function);

// ---- Calls

enum class Domain { runtime, driver };

/// Made at the begin of every function of the runtime's and the driver's API. Only the outermost call of a thread counts: it gets a
/// correlation number, and observers see it. What it enqueues carries the number.
class EMULATION_EXPORT ApiCall {
 public:
  /// id: the function's CUPTI_RUNTIME_TRACE_CBID_... or CUPTI_DRIVER_TRACE_CBID_..., 0: not observed.
  ApiCall(Domain domain, int id);
  ~ApiCall();
  ApiCall(const ApiCall&) = delete;
  ApiCall& operator=(const ApiCall&) = delete;
  /// `status` as the call's result, which observers see; also what the runtime's "last error" becomes if it is none.
  Status end(Status status);
};

// ---- Devices, parts and streams

[[nodiscard]] EMULATION_EXPORT int gpu_count();
[[nodiscard]] EMULATION_EXPORT int current_gpu();
EMULATION_EXPORT Status set_current_gpu(int gpu);

struct Stream;  ///< a queue of work of one GPU, or of a part of it (a green context)

struct StreamFacts {
  int gpu = 0;
  std::uint32_t id = 0;       ///< as CUPTI numbers it; 7 is a GPU's null stream
  std::uint32_t context = 0;  ///< as CUPTI numbers it: 1 + gpu, parts have numbers of their own
};

/// The stream of a handle of CUDA (a CUstream, which cudaStream_t is, too). Null, 1 and 2 are the current GPU's null stream. Null if it is
/// none.
[[nodiscard]] EMULATION_EXPORT Stream* stream_of(const void* handle);
[[nodiscard]] EMULATION_EXPORT StreamFacts facts_of(const Stream& stream);

// ---- Memory

enum class MemoryKind { pageable, pinned, device };

struct Block {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
  MemoryKind kind = MemoryKind::pageable;
  int gpu = -1;  ///< of MemoryKind::device
};

/// The block that holds `address`, if it was made by the emulated machine or pinned.
[[nodiscard]] EMULATION_EXPORT std::optional<Block> block_of(const void* address);

// ---- Work

enum class WorkKind {
  kernel,         ///< takes the multiprocessors of its part: kernels of one part exclude each other
  copy,           ///< within a GPU, or between it and the host; each way has an engine of its own
  peer_copy,      ///< between GPUs
  fill,           ///< memset
  communication,  ///< an NCCL kernel: waits for other GPUs, so takes no multiprocessors
  host,           ///< a function of the host (cudaLaunchHostFunc)
};

/// What a task reads or writes, for the race check.
struct Range {
  const void* begin = nullptr;
  std::size_t bytes = 0;
  bool written = false;
};

struct Work {
  WorkKind kind = WorkKind::kernel;
  const char* name = "";         ///< interned; a kernel's name in the records
  double flops = 0;              ///< the kernel's time by the model: launch + max(flops / rate, bytes / rate), slowed by the part's share
  double bytes = 0;              ///< moved: of copies the size
  Nanoseconds least = 0;         ///< a kernel that takes at least so long
  const void* source = nullptr;  ///< of copies
  void* destination = nullptr;   ///< of copies and fills
  int value = 0;                 ///< of fills
  std::uint32_t blocks[3] = {1, 1, 1};
  std::uint32_t threads[3] = {1, 1, 1};
  std::vector<Range> uses;        ///< filled in for copies and fills by submit()
  std::function<void()> compute;  ///< on the stream's thread; may throw, which becomes a sticky error of the GPU. Empty: copies, fills
};

/// On a stream's thread, in Work::compute: when the work begins by the model, of CLOCK_MONOTONIC; where there is no model, when it began.
[[nodiscard]] EMULATION_EXPORT Nanoseconds begin_of_work();
/// The same place: the work ends no earlier than then, whatever its own duration by the model. For work that waits for other GPUs.
EMULATION_EXPORT void end_work_at(Nanoseconds end);
/// How long a message takes from one GPU to another by the settings (EMULATED_PEER_LINK, EMULATED_LINKS); none: links take no modelled
/// time.
[[nodiscard]] EMULATION_EXPORT std::optional<Nanoseconds> link_time(int source, int destination, double bytes);

/// Enqueues work. Returns an error instead after a sticky one, or where a copy's ends do not fit its blocks.
EMULATION_EXPORT Status submit(Stream& stream, Work work);

/// Waits until all that was enqueued is done.
EMULATION_EXPORT Status wait_for(Stream& stream);

/// A place of a program that uses memory in the order of its own thread: what a stream still does with it is a race. For what the host
/// reads and writes, such as the source of a copy from pageable memory.
EMULATION_EXPORT void host_uses(const std::vector<Range>& uses, const char* name);

/// A write of NaN (bytes 0xFF) over a new block of the caching allocator, on the stream that it is for: a use by another stream without a
/// wait, and a use before a write, are found.
EMULATION_EXPORT void poison(Stream& stream, void* begin, std::size_t bytes);

/// Races found so far in this process; each pair of names is reported on stderr once, and makes the process end with code 66.
[[nodiscard]] EMULATION_EXPORT std::size_t race_count();

// ---- Observers: CUPTI

struct ApiRecord {
  Domain domain = Domain::runtime;
  int id = 0;
  std::uint32_t process = 0, correlation = 0;
  Status status = 0;
};

/// A finished task. Times are of the GPUs' clock, with its offset and drift.
struct WorkRecord {
  WorkKind kind = WorkKind::kernel;
  const char* name = "";
  StreamFacts stream;
  Nanoseconds begin = 0, end = 0;
  std::uint32_t correlation = 0;
  std::uint64_t bytes = 0;
  MemoryKind source_kind = MemoryKind::pageable, destination_kind = MemoryKind::pageable;
  int source_gpu = -1, destination_gpu = -1;
  int value = 0;
  std::uint32_t blocks[3] = {1, 1, 1}, threads[3] = {1, 1, 1};
};

/// cudaEventRecord: `event` is the number of the event, `mark` of this recording of it (CUPTI: eventId, cudaEventSyncId).
struct EventRecord {
  std::uint32_t event = 0;
  std::uint64_t mark = 0;
  StreamFacts stream;
  std::uint32_t correlation = 0;
  Nanoseconds device_time = 0;  ///< when the stream passed it
};

enum class WaitKind { stream_waits_for_event, host_waits_for_event, host_waits_for_stream, host_waits_for_context };

/// A wait.
struct WaitRecord {
  WaitKind kind = WaitKind::host_waits_for_stream;
  std::uint32_t event = 0;
  std::uint64_t mark = 0;  ///< the recording that is waited for
  StreamFacts stream;
  std::uint32_t correlation = 0;
};

/// Functions that are called as things happen, on the thread where they do; null: not wanted. They must not call CUDA.
struct Observer {
  void (*api_begins)(const ApiRecord& call) = nullptr;  ///< it has its number
  void (*api_ended)(const ApiRecord& call) = nullptr;
  void (*work_ended)(const WorkRecord& work) = nullptr;
  void (*event_recorded)(const EventRecord& event) = nullptr;  ///< when the stream passed it
  void (*waited)(const WaitRecord& wait) = nullptr;
};

/// Replaces the observer, which must live for ever; null: none. Waits for calls of the old one.
EMULATION_EXPORT void observe(const Observer* observer);

/// Time of the GPUs' clock: CLOCK_MONOTONIC with the offset and drift of the settings.
[[nodiscard]] EMULATION_EXPORT Nanoseconds gpu_clock();
/// What the GPUs' clock shows at a time of CLOCK_MONOTONIC.
[[nodiscard]] EMULATION_EXPORT Nanoseconds on_gpu_clock(Nanoseconds host_time);

// ---- Settings

/// The value of EMULATED_<name>, else `fallback`. Read once; a value that is no number ends the process with a message.
/// tests/emulation/README.md lists all.
[[nodiscard]] EMULATION_EXPORT double setting(const char* name, double fallback);
[[nodiscard]] EMULATION_EXPORT std::string setting_text(const char* name, const char* fallback);

}  // namespace emulation
