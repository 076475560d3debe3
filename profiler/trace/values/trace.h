#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace mptune {

using Nanoseconds = std::chrono::nanoseconds;

/// What a device does during an event. is_compute() says which kinds are compute.
enum class EventKind : std::uint8_t {
  forward,
  backward,         ///< gradients of inputs and weights together
  backward_input,   ///< gradients of inputs only
  backward_weight,  ///< gradients of weights only
  recompute,        ///< a forward run again, inside backward
  optimizer,
  reduce,  ///< sum of the gradients of a stage's replicas, update of their parameters
  copy,    ///< a peer copy; `detail` is an index into Trace::copies
  collective,
  memset,
  sync,      ///< a wait: a device's thread for an input, or a stream or thread in a recording of CUDA
  host,      ///< work of the host outside of all layers
  action,    ///< range: one action of the schedule
  step,      ///< range: one training step
  kernel,    ///< compute of an unknown phase (recordings made by other programs)
  profiler,  ///< the recorder's own work: it delays the device or the host
};

/// Number of values of EventKind, which are 0 .. kEventKindCount - 1.
inline constexpr int kEventKindCount = static_cast<int>(EventKind::profiler) + 1;

[[nodiscard]] const char* to_string(EventKind kind);

/// True for useful work on a device's compute lane: forward .. reduce, collective, memset, kernel.
[[nodiscard]] bool is_compute(EventKind kind);
/// True for what a device itself does: compute and copies. Waits and the recorder's work are timed on the host.
[[nodiscard]] bool is_device_work(EventKind kind);

/// Lane of a device: 0 is compute; 1 + d carries the copies this device sends to device d. Of n devices, 1 + n carries those to host
/// memory, 2 + n those from it.
inline constexpr int kComputeLane = 0;
[[nodiscard]] constexpr int copy_lane(int destination) {
  return 1 + destination;
}

/// One thing that happened on a lane of a device. Times are nanoseconds since the start of the recording, the same clock on all devices.
struct Event {
  Nanoseconds start{0};
  Nanoseconds duration{0};
  std::int32_t name = 0;     ///< index into Trace::names
  std::int32_t tag = -1;     ///< index into Trace::tags, -1: untagged
  std::int32_t detail = -1;  ///< of a copy: index into Trace::copies; of compute: index into Trace::kernels; -1: none
  std::int16_t device = 0;   ///< index into Trace::devices
  std::uint8_t lane = 0;
  EventKind kind = EventKind::host;

  [[nodiscard]] Nanoseconds end() const { return start + duration; }
  bool operator==(const Event&) const = default;
};
static_assert(sizeof(Event) <= 48);

/// The part of the training that an event belongs to; -1 where a field does not apply.
struct Tag {
  int step = -1;
  int stage = -1;
  int microbatch = -1;
  int layer = -1;
  int replica = -1;
  bool operator==(const Tag&) const = default;
};

struct Copy {
  std::int64_t bytes = 0;
  int source = -1;        ///< device index, -1: host memory
  int destination = -1;   ///< device index, -1: host memory
  bool gradient = false;  ///< holds gradients, not activations; also false if the source of the trace does not say
  bool unified = false;   ///< the driver moved pages of unified memory: no call launched it
  bool operator==(const Copy&) const = default;
};

/// How a GPU ran a kernel, as its tracer recorded it. Many events share one.
struct Kernel {
  int context = 0;
  int stream = 0;
  std::array<int, 3> grid{};
  std::array<int, 3> block{};
  int registers_per_thread = 0;
  int static_shared_bytes = 0;
  int dynamic_shared_bytes = 0;
  bool operator==(const Kernel&) const = default;
};

/// A call on a host thread that launched an event, or that blocked the thread without launching one (a synchronisation, an allocation).
struct Launch {
  int event = -1;   ///< index into Trace::events, -1: launched nothing
  int thread = -1;  ///< index into Trace::threads
  int name = -1;    ///< index into Trace::names: "cudaLaunchKernel"; -1: unknown
  Nanoseconds start{0};
  Nanoseconds end{0};
  std::int64_t correlation = 0;  ///< unique within the trace, > 0
  bool operator==(const Launch&) const = default;
};

/// Why an event could not start before another had ended.
enum class EdgeKind : std::uint8_t {
  order,       ///< same lane, the schedule's order
  data,        ///< the consumer reads the producer's output
  event_wait,  ///< a recorded wait on an event
};

struct Edge {
  int producer = -1;  ///< index into Trace::events
  int consumer = -1;  ///< index into Trace::events
  EdgeKind kind = EdgeKind::data;
  bool operator==(const Edge&) const = default;
};

struct MemorySample {
  Nanoseconds time{0};
  int device = -1;
  std::int64_t current_bytes = 0;
  bool operator==(const MemorySample&) const = default;
};

struct TraceDevice {
  std::string name;         ///< as in --devices: "cpu:0", "cuda:1", "sleep:0"
  std::string description;  ///< "CPU core set, 1 core"
  int cores = 0;
  std::int64_t memory_bytes = 0;  ///< size or cap; 0: unknown
  std::int64_t peak_bytes = 0;    ///< most that was in use, also between two memory samples; 0: unknown
  bool operator==(const TraceDevice&) const = default;
};

/// Start and end of one step, common to all devices.
struct StepWindow {
  int step = -1;
  Nanoseconds start{0};
  Nanoseconds end{0};
  bool operator==(const StepWindow&) const = default;
};

/// Counts of events that a recording lost or knows too little about.
struct TraceQuality {
  std::int64_t dropped = 0;
  std::int64_t untagged = 0;
  std::int64_t out_of_window = 0;
  std::int64_t zero_stamped = 0;  ///< records without times
  std::int64_t unmatched = 0;     ///< device work without a launch or earlier than it, sends without a receive and the reverse
  std::int64_t cut_off = 0;       ///< device work whose launch lies before the recording, and the reverse: nothing that matters is missing
  std::int64_t ambiguous = 0;     ///< device work that overlaps work of another process under the same device number: one GPU or several
  std::int64_t unmatched_ns = 0;  ///< in traces of several ranks or devices: time that devices spend in communications without counterpart,
                                  ///< and in nothing else: how much of it they wait is not known
  bool operator==(const TraceQuality&) const = default;
};

/// A record of another program's file with times that can't be right. Readers leave it out; one that overruns the next of its stream they
/// cut there. In the words of the file, so that it is found.
struct ImplausibleTime {
  enum class Fault {
    backward,  ///< it ends before it starts
    far,       ///< further from the other work than any recording is long
    alone,     ///< without it the recording would be less than half as long
    too_long,  ///< it lasts over most of the time while its stream runs other work
    overrun,   ///< it ends after the next of its stream starts
  };
  Fault fault = Fault::backward;
  std::string what;   ///< "kernel 'gemm'"
  std::string where;  ///< "cuda:0, stream 7"
  std::string times;  ///< "start 5000, end 4000 [ns]"
  bool operator==(const ImplausibleTime&) const = default;
};

/// Number of implausible times that a trace names at most.
inline constexpr std::size_t kMostImplausible = 10;

/// What host and devices did, measured or simulated.
/// `events` never overlap on one lane of one device. `ranges` (actions, steps) enclose them and may nest.
struct Trace {
  std::vector<TraceDevice> devices;
  std::vector<std::string> names;
  std::vector<std::string> threads;
  std::vector<Tag> tags;
  std::vector<Event> events;
  std::vector<Event> ranges;
  std::vector<Launch> launches;
  std::vector<Copy> copies;
  std::vector<Kernel> kernels;
  std::vector<Edge> edges;
  std::vector<MemorySample> memory;
  std::vector<StepWindow> steps;
  TraceQuality quality;
  std::vector<ImplausibleTime> implausible;  ///< the first kMostImplausible. Trace files of ours hold none
  bool simulated = false;
  std::int64_t started_utc_ns = 0;  ///< Unix time of the recording's start; 0: unknown

  bool operator==(const Trace&) const = default;
};

/// Names of copies of gradients: in recordings of the runtime, and in imported pipeline timelines.
inline constexpr const char* kGradientCopyName = "copy gradient";
inline constexpr const char* kBackwardCopyName = "copy backward";
/// Returns true if a copy of this name holds gradients. It is for readers of trace files, which keep the name alone.
[[nodiscard]] bool names_gradients(const std::string& copy);

/// Returns the name of a thread of one of several processes: "rank 1, thread 5".
[[nodiscard]] std::string thread_of_rank(int rank, const std::string& thread);
/// Returns the process of a thread with such a name; 0 for other names.
[[nodiscard]] int rank_of_thread(const std::string& name);

/// Returns true if a call launches events of this kind on a GPU: computing, and copies but for those of unified memory.
/// Requires: `detail` in range.
[[nodiscard]] bool is_launched(const Trace& trace, const Event& event);

/// Name of CUDA graphs that a recording holds as a whole, as work of unknown contents (EventKind::kernel without detail).
inline constexpr const char* kWholeGraphName = "CUDA graph (contents not recorded)";
[[nodiscard]] bool is_whole_graph(const Trace& trace, const Event& event);

/// Name of copies of unified memory.
inline constexpr const char* kUnifiedCopyName = "unified memory copy";

}  // namespace mptune
