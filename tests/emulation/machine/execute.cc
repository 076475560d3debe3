#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <exception>
#include <memory>
#include <random>

#include "tests/emulation/machine/clock.h"
#include "tests/emulation/machine/ledger.h"
#include "tests/emulation/machine/memory.h"
#include "tests/emulation/machine/observers.h"
#include "tests/emulation/machine/speed.h"
#include "tests/emulation/machine/status.h"
#include "tests/emulation/machine/stream.h"

namespace emulation {

namespace {

struct Times {
  Nanoseconds begin = 0, end = 0;
};

/// Of the work that this thread computes.
thread_local Times current;

void delay_at_random() {
  static const double most = setting("JITTER_US", 0);
  if (most <= 0) return;
  static std::atomic<unsigned> seeds = static_cast<unsigned>(setting("SEED", 1));
  static thread_local std::minstd_rand generator(++seeds * 7919U);
  const double delay = std::uniform_real_distribution<double>(0, most * 1e3)(generator);
  sleep_until(host_clock() + static_cast<Nanoseconds>(delay));
}

/// EMULATED_FAIL_AT: the kernel of this number accesses illegal memory. They are counted over all GPUs of the process, from 1.
bool fails_now(const Task& task) {
  static const double at = setting("FAIL_AT", 0);
  static std::atomic<double> kernels = 0;
  return at > 0 && task.work.kind == WorkKind::kernel && kernels.fetch_add(1) + 1 == at;
}

void compute(const Task& task) {
  const Work& work = task.work;
  if (work.compute) return work.compute();
  const auto bytes = static_cast<std::size_t>(work.bytes);
  if (work.kind == WorkKind::fill) std::memset(work.destination, work.value, bytes);
  if (work.kind == WorkKind::copy || work.kind == WorkKind::peer_copy) std::memmove(work.destination, work.source, bytes);
}

/// What the program throws there is what a GPU's kernel would assert.
void compute_or_fail(const Stream& stream, const Task& task) {
  if (sticky_error(stream.gpu) != kSuccess) return;
  if (fails_now(task)) return set_sticky_error(stream.gpu, kIllegalAddress);
  try {
    compute(task);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s on GPU %d: %s\n", task.work.name, stream.gpu, error.what());
    set_sticky_error(stream.gpu, kAssert);
  }
}

Nanoseconds cpu_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

/// Modelled times do not depend on when the host's threads happen to run, unless computing takes longer than the model says, or more
/// threads compute than the host has cores for.
Times run_modelled(Stream& stream, const Task& task, Nanoseconds duration, Nanoseconds ready) {
  static const auto tolerance = static_cast<Nanoseconds>(1e3 * setting("LATENESS_US", 10'000));
  const Nanoseconds begin = std::max({task.submitted, stream.last_end, ready});
  const Nanoseconds cpu_before = cpu_time();
  current = {begin, begin + duration};
  compute_or_fail(stream, task);
  // What moves messages is not the GPU's work.
  const Nanoseconds computed = task.work.kind == WorkKind::communication ? 0 : cpu_time() - cpu_before;
  Nanoseconds end = std::max(current.end, begin + computed);
  if (host_clock() > end + tolerance) end = host_clock();
  sleep_until(end);
  return {begin, end};
}

Times run_work(Stream& stream, const Task& task) {
  delay_at_random();
  Occupation occupation(units_of(stream, task), stream.priority);
  Times times;
  static const bool jitters = setting("JITTER_US", 0) > 0;
  if (const auto duration = modelled_duration(stream, task)) {
    times = run_modelled(stream, task, *duration, std::max(occupation.free_at(), jitters ? host_clock() : 0));
  } else {
    times.begin = std::max({host_clock(), stream.last_end, occupation.free_at()});
    current = {times.begin, times.begin};
    compute_or_fail(stream, task);
    times.end = std::max(host_clock(), times.begin);
  }
  occupation.release(times.end);
  return times;
}

WorkRecord record_of(const Stream& stream, const Task& task, const Times& times) {
  WorkRecord record;
  const Work& work = task.work;
  record.kind = work.kind;
  record.name = work.name;
  record.stream = facts_of(stream);
  record.begin = on_gpu_clock(times.begin);
  record.end = on_gpu_clock(times.end);
  record.correlation = task.correlation;
  record.bytes = static_cast<std::uint64_t>(work.bytes);
  record.source_kind = task.source_kind;
  record.destination_kind = task.destination_kind;
  record.source_gpu = task.source_gpu;
  record.destination_gpu = task.destination_gpu;
  record.value = work.value;
  std::copy_n(work.blocks, 3, record.blocks);
  std::copy_n(work.threads, 3, record.threads);
  return record;
}

void execute_work(Stream& stream, const Task& task) {
  const Times times = run_work(stream, task);
  stream.last_end = times.end;
  if (!is_observed() && !has_ledger()) return;
  const WorkRecord record = record_of(stream, task, times);
  if (has_ledger() && task.work.kind != WorkKind::host) write_to_ledger(record);
  tell_work_ended(record);
}

void pass_mark(Stream& stream, const Task& task) {
  stream.last_end = std::max(stream.last_end, task.submitted);
  task.mark->time = stream.last_end;
  if (task.mark->event == 0) return;
  tell_event_recorded({task.mark->event, task.mark->number, facts_of(stream), task.correlation, on_gpu_clock(stream.last_end)});
}

void wait_for_mark_of_task(Stream& stream, const Task& task) {
  wait_until_completed(*task.mark->stream, task.mark->task);
  stream.last_end = std::max({stream.last_end, task.submitted, task.mark->time.load()});
}

}  // namespace

Nanoseconds begin_of_work() {
  return current.begin;
}

void end_work_at(Nanoseconds end) {
  current.end = std::max(current.end, end);
}

void execute(Stream& stream, Task& task) {
  switch (task.kind) {
    case Task::Kind::work:
      return execute_work(stream, task);
    case Task::Kind::poison:
      return fill_with_nan(task.work.destination, static_cast<std::size_t>(task.work.bytes));
    case Task::Kind::record:
      return pass_mark(stream, task);
    case Task::Kind::wait:
      return wait_for_mark_of_task(stream, task);
  }
}

}  // namespace emulation
