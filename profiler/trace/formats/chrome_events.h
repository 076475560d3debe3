#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "profiler/base/index.h"
#include "profiler/trace/formats/text_input.h"
#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// Readers refuse files with more devices.
inline constexpr std::size_t kMostDevices = 4096;

/// Integers in the `args` of an event that one of the readers uses. Their names in files are in kArgNames (chrome_events.cc), in this
/// order.
enum class ChromeArg {
  stream,
  correlation,
  device,
  context,
  bytes,
  registers,
  shared_memory,
  from_device,
  to_device,
  step,
  model_chunk,
  microbatch,
  elements_in,
  elements_out,
  sequence,
  source_rank,
  destination_rank,
  event,
  stage,
  layer,
  replica,
  source,
  destination,
};
inline constexpr int kChromeArgs = static_cast<int>(ChromeArg::destination) + 1;

/// Texts in the `args` of an event that one of the readers uses.
enum class ChromeWord { communication, element_type, group, group_ranks, kind, label, after, task_type };
inline constexpr int kChromeWords = static_cast<int>(ChromeWord::task_type) + 1;

/// One entry of a Chrome trace. Fields that the file leaves out are empty.
struct ChromeEvent {
  std::string phase;     ///< "X": complete, with a duration; "M": metadata
  std::string category;  ///< as written
  std::string name;
  std::string process;    ///< `pid`, a number or a word
  std::string thread;     ///< `tid`, a number or a word
  std::string args_name;  ///< `args.name`; for metadata the name of the process or thread
  std::optional<Nanoseconds> time;
  std::optional<Nanoseconds> duration;
  std::string out_of_range;  ///< "ts 1e20": the first time beyond 2^61 ns, as written; it reads as 2^61 ns, or -2^61 ns if negative
  std::array<std::optional<std::int64_t>, kChromeArgs> args;
  std::array<std::string, kChromeWords> words;  ///< "": the file leaves it out
  std::array<int, 3> grid{};
  std::array<int, 3> block{};

  [[nodiscard]] const std::optional<std::int64_t>& operator[](ChromeArg arg) const { return args[as_index(arg)]; }
  [[nodiscard]] const std::string& operator[](ChromeWord word) const { return words[as_index(word)]; }
};

/// An entry of `deviceProperties`.
struct ChromeDevice {
  std::int64_t id = -1;
  std::string name;
  std::int64_t memory_bytes = 0;
  int cores = 0;  ///< `numSms`
};

/// What files of mptune say about themselves: which device's part of which trace they hold.
struct ChromeExport {
  std::string trace;  ///< the same in all files of one trace; "": not a file of mptune
  std::int64_t device = -1;
  std::int64_t devices = 0;
  bool simulated = false;
  std::string description;      ///< of the device
  std::int64_t peak_bytes = 0;  ///< most bytes that were in use on it; 0: unknown
};

/// What a Chrome trace holds besides its events.
struct ChromeHeader {
  std::vector<ChromeDevice> devices;
  std::int64_t base_time_ns = 0;  ///< Unix time that `ts` counts from; 0: not given
  std::int64_t rank = -1;         ///< of the process among those of its job (`distributedInfo`); -1: not given
  std::int64_t ranks = 0;         ///< processes of the job; 0: not given
  ChromeExport exported;
};

/// Receives one event and may move from it. Returns false to stop reading.
using ChromeVisitor = std::function<bool(ChromeEvent&)>;

/// Passes every event of a Chrome trace to `visit`. The trace is a list, or an object with `traceEvents`.
/// Events are not stored, so memory does not grow with the file. Decimal microseconds become nanoseconds without loss, even if the file has
/// them as text (Ascend's profiler, rocprof). Text that is not JSON is named with line, column and the text around it.
/// Throws Error: broken input, not JSON, neither form, an event that is not an object, a `ts` or `dur` that is not a number,
/// nesting deeper than 64.
ChromeHeader read_chrome_events(TextInput& input, const ChromeVisitor& visit);

}  // namespace mptune::profiler
