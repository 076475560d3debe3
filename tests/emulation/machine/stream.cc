#include "tests/emulation/machine/stream.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <shared_mutex>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tests/emulation/machine/calls.h"
#include "tests/emulation/machine/clock.h"
#include "tests/emulation/machine/shared_machine.h"
#include "tests/emulation/machine/status.h"

namespace emulation {

namespace {

constexpr std::uint32_t kNullStreamId = 7;
constexpr std::uint32_t kFirstStreamId = 13;
constexpr auto kGrace = std::chrono::seconds(2);  // for work that runs when the process ends

std::atomic<bool> ending = false;
std::atomic<int> running = 0;
std::atomic<std::uint64_t> marks = 0;

/// Everything that calls of the host change in common. Index 0 of vector clocks is the host's.
struct Order {
  std::mutex mutex;
  VectorClock host;
  std::uint64_t host_version = 1;
  std::uint32_t next_id = kFirstStreamId;
  std::vector<Stream*> streams;  ///< by index - 1
  Stream* null_streams[kMostGpus] = {};
};

Order& order() {
  static Order& all = *new Order;
  return all;
}

struct StreamHandles {
  std::shared_mutex mutex;
  std::unordered_set<const void*> streams;
};

StreamHandles& stream_handles() {
  static StreamHandles& all = *new StreamHandles;
  return all;
}

bool is_idle() {
  const std::lock_guard lock(order().mutex);
  const auto& streams = order().streams;
  return running == 0 &&
         std::all_of(streams.begin(), streams.end(), [](const Stream* stream) { return stream->completed == stream->submitted; });
}

void wait_until_idle() {
  const auto end = std::chrono::steady_clock::now() + kGrace;
  while (!is_idle() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// Lets work end, as profilers record it, and begins no more: it could use what the program's destructors have freed.
void end_all() {
  if (ending) return;
  wait_until_idle();
  ending = true;
  const std::lock_guard lock(order().mutex);
  for (Stream* stream : order().streams) {
    const std::lock_guard own(stream->mutex);
    stream->progressed.notify_all();
  }
}

void work_off(Stream& stream) {
  sleep_exactly();
  for (;;) {
    Task task;
    {
      std::unique_lock lock(stream.mutex);
      stream.arrived.wait(lock, [&] { return !stream.queue.empty() || stream.destroyed; });
      if (stream.queue.empty()) {
        stream.has_thread = false;
        return;
      }
      task = std::move(stream.queue.front());
      stream.queue.pop_front();
    }
    ++running;
    if (!ending) execute(stream, task);
    --running;
    const std::uint64_t number = task.number;
    task = {};  // what it holds is freed before anyone may rely on it
    const std::lock_guard lock(stream.mutex);
    stream.completed = number;
    stream.progressed.notify_all();
  }
}

/// Requires: the order's lock is held.
Stream* add_stream(Context& context, const StreamChoice& choice, std::uint32_t id) {
  auto* stream = new Stream;
  stream->gpu = context.gpu;
  stream->id = id;
  stream->context = &context;
  stream->blocking = choice.blocking;
  stream->priority = choice.priority;
  order().streams.push_back(stream);
  stream->index = order().streams.size();
  return stream;
}

Stream* null_stream(int gpu) {
  const std::lock_guard lock(order().mutex);
  Stream*& stream = order().null_streams[gpu];
  if (stream == nullptr) {
    stream = add_stream(primary_context(gpu), {}, kNullStreamId);
    stream->is_null = true;
  }
  return stream;
}

/// Requires: the order's lock is held. Pushes without looking at the null stream.
std::uint64_t push(Stream& stream, Task task) {
  if (stream.host_joined != order().host_version) stream.clock.join(order().host);
  stream.host_joined = order().host_version;
  task.number = ++stream.submitted;
  task.submitted = host_clock();
  stream.clock.set(stream.index, task.number);
  if (task.kind == Task::Kind::wait) stream.clock.join(task.mark->clock);
  if (task.kind == Task::Kind::record) {
    task.mark->task = task.number;
    task.mark->clock = stream.clock;
  }
  check_uses({stream.index, task.number, task.work.name, &stream}, stream.clock, task.work.uses);
  const std::uint64_t number = task.number;
  const std::lock_guard lock(stream.mutex);
  stream.queue.push_back(std::move(task));
  if (!std::exchange(stream.has_thread, true)) std::thread(work_off, std::ref(stream)).detach();
  stream.arrived.notify_one();
  return number;
}

std::shared_ptr<Mark> make_mark(Stream& stream, std::uint32_t event) {
  auto mark = std::make_shared<Mark>();
  mark->number = ++marks;
  mark->event = event;
  mark->stream = &stream;
  return mark;
}

/// Requires: the order's lock is held. `stream` goes on after what was submitted to `other`.
void follow(Stream& stream, Stream& other, std::uint64_t& seen) {
  if (seen == other.submitted || other.completed == other.submitted) {
    stream.clock.join(other.clock);
    seen = other.submitted;
    return;
  }
  Task record, wait;
  record.kind = Task::Kind::record;
  record.mark = wait.mark = make_mark(other, 0);
  wait.kind = Task::Kind::wait;
  push(other, std::move(record));
  push(stream, std::move(wait));
  seen = other.submitted;
}

/// Requires: the order's lock is held. The null stream and blocking streams of a GPU wait for each other.
void follow_null_stream(Stream& stream) {
  Stream* null = order().null_streams[stream.gpu];
  if (null == nullptr || !stream.blocking) return;
  if (&stream != null) return follow(stream, *null, stream.seen_null);
  for (Stream* other : order().streams)
    if (other != null && other->gpu == stream.gpu && other->blocking) follow(stream, *other, other->seen_by_null);
}

}  // namespace

Stream* stream_of(const void* handle) {
  if (reinterpret_cast<std::uintptr_t>(handle) <= 2) return gpu_count() == 0 ? nullptr : null_stream(current_gpu());
  const std::shared_lock lock(stream_handles().mutex);
  if (!stream_handles().streams.contains(handle)) return nullptr;
  return const_cast<Stream*>(static_cast<const Stream*>(handle));
}

StreamFacts facts_of(const Stream& stream) {
  return {stream.gpu, stream.id, stream.context->id};
}

Stream* make_stream(Context& context, const StreamChoice& choice) {
  Stream* stream = nullptr;
  {
    const std::lock_guard lock(order().mutex);
    stream = add_stream(context, choice, order().next_id++);
  }
  const std::unique_lock lock(stream_handles().mutex);
  stream_handles().streams.insert(stream);
  return stream;
}

Status destroy_stream(Stream& stream) {
  {
    const std::unique_lock lock(stream_handles().mutex);
    if (stream_handles().streams.erase(&stream) == 0) return kInvalidHandle;
  }
  const std::lock_guard lock(stream.mutex);
  stream.destroyed = true;
  stream.arrived.notify_one();
  return sticky_error(stream.gpu);
}

std::uint64_t append(Stream& stream, Task task) {
  task.correlation = current_correlation();
  const std::lock_guard lock(order().mutex);
  follow_null_stream(stream);
  return push(stream, std::move(task));
}

std::shared_ptr<Mark> record(Stream& stream, std::uint32_t event) {
  Task task;
  task.kind = Task::Kind::record;
  auto mark = task.mark = make_mark(stream, event);
  append(stream, std::move(task));
  return mark;
}

void wait_for_mark(Stream& stream, const std::shared_ptr<Mark>& mark) {
  Task task;
  task.kind = Task::Kind::wait;
  task.mark = mark;
  append(stream, std::move(task));
}

void wait_until_completed(Stream& stream, std::uint64_t task) {
  if (stream.completed >= task) return;
  std::unique_lock lock(stream.mutex);
  stream.progressed.wait(lock, [&] { return stream.completed >= task || ending; });
}

void host_learns(const VectorClock& done) {
  const std::lock_guard lock(order().mutex);
  order().host.join(done);
  ++order().host_version;
}

Status wait_for(Stream& stream) {
  std::uint64_t last = 0;
  VectorClock clock;
  {
    const std::lock_guard lock(order().mutex);
    if (stream.is_null) follow_null_stream(stream);
    last = stream.submitted;
    clock = stream.clock;
  }
  wait_until_completed(stream, last);
  host_learns(clock);
  return sticky_error(stream.gpu);
}

bool is_done(const Mark& mark) {
  return mark.stream->completed >= mark.task;
}

Status host_waits_for(const Mark& mark) {
  wait_until_completed(*mark.stream, mark.task);
  host_learns(mark.clock);
  return sticky_error(mark.stream->gpu);
}

bool is_done(Stream& stream) {
  VectorClock clock;
  {
    const std::lock_guard lock(order().mutex);
    if (stream.is_null) follow_null_stream(stream);
    if (stream.completed < stream.submitted) return false;
    clock = stream.clock;
  }
  host_learns(clock);
  return true;
}

namespace {

/// Of the GPU, or only of one context.
std::vector<Stream*> streams_of(int gpu, const Context* context) {
  std::vector<Stream*> found;
  const std::lock_guard lock(order().mutex);
  for (Stream* stream : order().streams)
    if (stream->gpu == gpu && (context == nullptr || stream->context == context)) found.push_back(stream);
  return found;
}

}  // namespace

Status wait_for_gpu(int gpu) {
  for (Stream* stream : streams_of(gpu, nullptr)) wait_for(*stream);
  return sticky_error(gpu);
}

Status wait_for_context(const Context& context) {
  for (Stream* stream : streams_of(context.gpu, &context)) wait_for(*stream);
  return sticky_error(context.gpu);
}

void host_uses(const std::vector<Range>& uses, const char* name) {
  const std::lock_guard lock(order().mutex);
  check_host_uses(name, order().host, uses);
}

void end_work_with_process() {
  std::atexit(end_all);
}

}  // namespace emulation
