#pragma once

/// Streams: a queue of tasks and a thread that works them off.
///
///     host    submit(), record(), wait_for_mark()   append tasks, under the lock of the machine's order
///     thread  waits for a task's marks, occupies its units, computes, sleeps until the modelled end, says that it is done
///
/// Streams are never deleted, as marks name them; the thread of a destroyed one ends with its last task.

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>

#include "tests/emulation/machine/gpus.h"
#include "tests/emulation/machine/machine.h"
#include "tests/emulation/machine/race_check.h"

namespace emulation {

/// A point in a stream's work. Record makes one; it is done when the stream passed it.
struct Mark {
  std::uint64_t number = 0;
  std::uint32_t event = 0;  ///< the number of the event, 0: none
  Stream* stream = nullptr;
  std::uint64_t task = 0;
  VectorClock clock;
  std::atomic<Nanoseconds> time = 0;  ///< of CLOCK_MONOTONIC, once it is done
};

struct Task {
  enum class Kind { work, record, wait, poison };
  Kind kind = Kind::work;
  std::uint64_t number = 0;
  std::uint32_t correlation = 0;
  Nanoseconds submitted = 0;
  Work work;
  MemoryKind source_kind = MemoryKind::pageable, destination_kind = MemoryKind::pageable;
  int source_gpu = -1, destination_gpu = -1;
  std::shared_ptr<Mark> mark;  ///< of record and wait
};

struct Stream {
  int gpu = 0;
  std::uint32_t id = 0;
  Context* context = nullptr;
  std::size_t index = 0;  ///< in vector clocks
  bool blocking = true;   ///< waits for the null stream, and that one for it
  bool is_null = false;
  int priority = 0;

  // Under the lock of the order.
  VectorClock clock;
  std::uint64_t submitted = 0;  ///< number of the last task
  std::uint64_t seen_null = 0;  ///< of the null stream's tasks: the last that this stream waits for
  std::uint64_t seen_by_null = 0;
  std::uint64_t host_joined = 0;  ///< version of the host's clock that `clock` has

  std::mutex mutex;
  std::condition_variable arrived, progressed;
  std::deque<Task> queue;
  std::atomic<std::uint64_t> completed = 0;
  bool has_thread = false;
  bool destroyed = false;

  Nanoseconds last_end = 0;  ///< its thread's
};

struct StreamChoice {
  bool blocking = true;
  int priority = 0;
};

/// Made in a context, which is a GPU or a part of one.
[[nodiscard]] EMULATION_EXPORT Stream* make_stream(Context& context, const StreamChoice& choice);
/// Its work goes on. The null stream can't be destroyed.
EMULATION_EXPORT Status destroy_stream(Stream& stream);

[[nodiscard]] EMULATION_EXPORT bool is_done(Stream& stream);
EMULATION_EXPORT Status wait_for_gpu(int gpu);
EMULATION_EXPORT Status wait_for_context(const Context& context);

/// Appends a point; `event` is the number that observers are told.
[[nodiscard]] EMULATION_EXPORT std::shared_ptr<Mark> record(Stream& stream, std::uint32_t event);
/// What is appended after it begins when the mark is done.
EMULATION_EXPORT void wait_for_mark(Stream& stream, const std::shared_ptr<Mark>& mark);
[[nodiscard]] EMULATION_EXPORT bool is_done(const Mark& mark);
/// The host waits, and knows then that all before the mark is done.
EMULATION_EXPORT Status host_waits_for(const Mark& mark);
/// The host knows it from a query.
EMULATION_EXPORT void host_learns(const VectorClock& done);

/// For submit(): appends under the lock of the order. Returns the task's number.
std::uint64_t append(Stream& stream, Task task);
/// Until a task is done, or the process ends.
void wait_until_completed(Stream& stream, std::uint64_t task);

/// Runs a task on the stream's thread.
void execute(Stream& stream, Task& task);

/// When the process ends, lets work end for a while, and then begins no more; nobody waits for it then. Registers that with exit(), at each
/// call: it has to come before destructors that free what work uses.
EMULATION_EXPORT void end_work_with_process();

}  // namespace emulation
