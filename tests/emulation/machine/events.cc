#include "tests/emulation/machine/events.h"

#include <cmath>
#include <mutex>
#include <shared_mutex>
#include <unordered_set>

#include "tests/emulation/machine/calls.h"
#include "tests/emulation/machine/clock.h"
#include "tests/emulation/machine/observers.h"
#include "tests/emulation/machine/status.h"

namespace emulation {

struct Event {
  std::uint32_t number = 0;
  bool timed = true;
  std::mutex mutex;
  std::shared_ptr<Mark> mark;  ///< null: never recorded
};

namespace {

std::atomic<std::uint32_t> events = 0;

struct EventHandles {
  std::shared_mutex mutex;
  std::unordered_set<const Event*> events;
};

EventHandles& event_handles() {
  static EventHandles& all = *new EventHandles;
  return all;
}

bool exists(const Event* event) {
  const std::shared_lock lock(event_handles().mutex);
  return event_handles().events.contains(event);
}

std::shared_ptr<Mark> mark_of(Event& event) {
  const std::lock_guard lock(event.mutex);
  return event.mark;
}

StreamFacts facts_of_gpu(int gpu) {
  const Context& context = primary_context(gpu);
  return {gpu, 0, context.id};
}

/// Tells observers when its scope ends.
class WaitToTell {
 public:
  WaitToTell(WaitKind kind, const StreamFacts& stream, const Mark* mark) {
    record_.kind = kind;
    record_.stream = stream;
    record_.correlation = current_correlation();
    if (mark == nullptr) return;
    record_.event = mark->event;
    record_.mark = mark->number;
  }
  ~WaitToTell() { tell_waited(record_); }
  WaitToTell(const WaitToTell&) = delete;
  WaitToTell& operator=(const WaitToTell&) = delete;

 private:
  WaitRecord record_;
};

}  // namespace

Event* make_event(bool timed) {
  auto* event = new Event;
  event->number = ++events;
  event->timed = timed;
  const std::unique_lock lock(event_handles().mutex);
  event_handles().events.insert(event);
  return event;
}

Status destroy_event(Event* event) {
  {
    const std::unique_lock lock(event_handles().mutex);
    if (event_handles().events.erase(event) == 0) return kInvalidHandle;
  }
  delete event;
  return kSuccess;
}

Status record_event(Event* event, Stream& stream) {
  if (!exists(event)) return kInvalidHandle;
  if (const Status error = sticky_error(stream.gpu)) return error;
  auto mark = record(stream, event->number);
  const std::lock_guard lock(event->mutex);
  event->mark = std::move(mark);
  return kSuccess;
}

Status query_event(Event* event) {
  if (!exists(event)) return kInvalidHandle;
  const std::shared_ptr<Mark> mark = mark_of(*event);
  if (!mark) return kSuccess;
  if (const Status error = sticky_error(mark->stream->gpu)) return error;
  if (!is_done(*mark)) return kNotReady;
  host_learns(mark->clock);
  return kSuccess;
}

Status host_waits_for_event(Event* event) {
  if (!exists(event)) return kInvalidHandle;
  const std::shared_ptr<Mark> mark = mark_of(*event);
  if (!mark) return kSuccess;
  const WaitToTell wait(WaitKind::host_waits_for_event, facts_of(*mark->stream), mark.get());
  return host_waits_for(*mark);
}

Status stream_waits_for_event(Stream& stream, Event* event) {
  if (!exists(event)) return kInvalidHandle;
  if (const Status error = sticky_error(stream.gpu)) return error;
  const std::shared_ptr<Mark> mark = mark_of(*event);
  if (!mark) return kSuccess;
  const WaitToTell wait(WaitKind::stream_waits_for_event, facts_of(stream), mark.get());
  wait_for_mark(stream, mark);
  return kSuccess;
}

Status elapsed_time(float* milliseconds, Event* begin, Event* end) {
  if (!exists(begin) || !exists(end) || !begin->timed || !end->timed) return kInvalidHandle;
  const std::shared_ptr<Mark> first = mark_of(*begin), last = mark_of(*end);
  if (!first || !last) return kInvalidHandle;
  if (!is_done(*first) || !is_done(*last)) return kNotReady;
  const auto passed = static_cast<double>(on_gpu_clock(last->time) - on_gpu_clock(first->time));
  *milliseconds = static_cast<float>(std::round(passed / 500) * 500 / 1e6);
  return kSuccess;
}

Status host_waits_for_stream(Stream& stream) {
  const WaitToTell wait(WaitKind::host_waits_for_stream, facts_of(stream), nullptr);
  return wait_for(stream);
}

Status host_waits_for_gpu(int gpu) {
  const WaitToTell wait(WaitKind::host_waits_for_context, facts_of_gpu(gpu), nullptr);
  return wait_for_gpu(gpu);
}

Status query_stream(Stream& stream) {
  if (const Status error = sticky_error(stream.gpu)) return error;
  return is_done(stream) ? kSuccess : kNotReady;
}

}  // namespace emulation
