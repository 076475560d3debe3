#include "tuner/worker/program/rank_recording.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>

#include "profiler/base/index.h"
#include "profiler/base/text.h"
#include "tuner/runtime/between/tensor_text.h"

namespace mptune::tuner {
namespace {

using Time = std::chrono::steady_clock::time_point;

constexpr std::size_t kNumbersOfEntry = 17;
constexpr std::size_t kNumbersOfLane = 3;  // device, lane, number of entries
constexpr std::size_t kNumbersOfMemory = 3;
constexpr std::size_t kNumbersOfStep = 3;
constexpr std::size_t kParts = 8;  // names, threads, lanes, entries, memory, names and descriptions of devices, their sizes, steps
constexpr int kTag = 1 << 28;      // none that a pipeline of these ranks uses
constexpr std::int64_t kMostDevices = 1 << 15, kLastLane = 255;  // that a trace has places for
constexpr char kBetween = '\n';
using EntryNumbers = std::array<std::int64_t, kNumbersOfEntry>;

std::int64_t ticks_of(Time time) {
  return std::chrono::duration_cast<Nanoseconds>(time.time_since_epoch()).count();
}

Time time_of(std::int64_t nanoseconds) {
  return Time(std::chrono::duration_cast<Time::duration>(Nanoseconds(nanoseconds)));
}

EntryNumbers numbers_of(const LaneLog::Entry& entry) {
  const auto& [step, stage, microbatch, layer, replica] = entry.tag;
  const auto& [bytes, source, destination, gradient, unified] = entry.copy;
  return {ticks_of(entry.start),
          ticks_of(entry.end),
          static_cast<std::int64_t>(entry.kind),
          entry.name,
          step,
          stage,
          microbatch,
          layer,
          replica,
          bytes,
          source,
          destination,
          gradient ? 1 : 0,
          unified ? 1 : 0,
          entry.range ? 1 : 0,
          entry.further,
          entry.sender};
}

LaneLog::Entry entry_of(const std::int64_t* numbers, std::size_t names) {
  const auto whole = [&](int i) { return static_cast<int>(numbers[i]); };
  const bool is_known = numbers[2] >= 0 && numbers[2] < kEventKindCount && numbers[3] >= 0 && as_index(numbers[3]) < names;
  if (!is_known) refuse_message();
  LaneLog::Entry entry;
  entry.start = time_of(numbers[0]);
  entry.end = time_of(numbers[1]);
  entry.kind = static_cast<EventKind>(numbers[2]);
  entry.name = whole(3);
  entry.tag = {whole(4), whole(5), whole(6), whole(7), whole(8)};
  entry.copy = {numbers[9], whole(10), whole(11), numbers[12] != 0, numbers[13] != 0};
  entry.range = numbers[14] != 0;
  entry.further = whole(15);
  entry.sender = whole(16);
  return entry;
}

at::Tensor tensor_of(const std::vector<std::int64_t>& numbers) {
  return at::tensor(at::ArrayRef<std::int64_t>(numbers), at::kLong);
}

std::vector<std::string> lines_in(const at::Tensor& bytes) {
  const std::string text = text_in(bytes);
  return text.empty() ? std::vector<std::string>() : split(text, kBetween);
}

/// Numbers of whole rows of so many.
std::vector<std::int64_t> rows_in(const at::Tensor& tensor, std::size_t width) {
  std::vector<std::int64_t> numbers = whole_numbers_in(tensor);
  if (numbers.size() % width != 0) refuse_message();
  return numbers;
}

Time on_first_clock(Time time, const RankClock& clock) {
  return Time(std::chrono::duration_cast<Time::duration>(clock.common(std::chrono::duration_cast<Nanoseconds>(time.time_since_epoch()))));
}

}  // namespace

Tensors message_of(const HostLog& log) {
  std::vector<std::string> threads;
  std::vector<std::string> devices;
  std::vector<std::int64_t> lanes, entries, memory, sizes, steps;
  for (const TraceDevice& device : log.devices) {
    devices.insert(devices.end(), {device.name, device.description});
    sizes.insert(sizes.end(), {device.cores, device.memory_bytes});
  }
  for (const HostLog::Lane& lane : log.lanes) {
    threads.push_back(lane.thread);
    lanes.insert(lanes.end(), {lane.device, lane.lane, static_cast<std::int64_t>(lane.entries.size())});
    for (const LaneLog::Entry& entry : lane.entries) {
      const EntryNumbers numbers = numbers_of(entry);
      entries.insert(entries.end(), numbers.begin(), numbers.end());
    }
  }
  for (const HostLog::Memory& sample : log.memory) memory.insert(memory.end(), {ticks_of(sample.time), sample.device, sample.bytes});
  for (const HostLog::Step& step : log.steps) steps.insert(steps.end(), {step.step, ticks_of(step.start), ticks_of(step.end)});
  const std::string between(1, kBetween);
  return {text_as_tensor(join(log.names, between)),
          text_as_tensor(join(threads, between)),
          tensor_of(lanes),
          tensor_of(entries),
          tensor_of(memory),
          text_as_tensor(join(devices, between)),
          tensor_of(sizes),
          tensor_of(steps)};
}

HostLog log_from(const Tensors& message) {
  if (message.size() != kParts) refuse_message();
  HostLog log;
  log.names = lines_in(message[0]);
  const std::vector<std::string> threads = lines_in(message[1]);
  const std::vector<std::int64_t> lanes = rows_in(message[2], kNumbersOfLane), entries = rows_in(message[3], kNumbersOfEntry);
  const std::vector<std::int64_t> memory = rows_in(message[4], kNumbersOfMemory), sizes = rows_in(message[6], 1);
  const std::vector<std::int64_t> steps = rows_in(message[7], kNumbersOfStep);
  std::size_t next = 0;
  if (lanes.size() != kNumbersOfLane * threads.size()) refuse_message();
  for (std::size_t l = 0; l < threads.size(); ++l) {
    const std::int64_t* lane = lanes.data() + kNumbersOfLane * l;
    const bool fits = lane[0] >= 0 && lane[0] < kMostDevices && lane[1] >= 0 && lane[1] <= kLastLane;
    if (!fits || lane[2] < 0 || as_index(lane[2]) > entries.size() / kNumbersOfEntry - next) refuse_message();
    HostLog::Lane& added = log.lanes.emplace_back(HostLog::Lane{static_cast<int>(lane[0]), static_cast<int>(lane[1]), threads[l], {}});
    for (std::int64_t e = 0; e < lane[2]; ++e)
      added.entries.push_back(entry_of(entries.data() + kNumbersOfEntry * next++, log.names.size()));
  }
  for (std::size_t m = 0; m < memory.size(); m += kNumbersOfMemory) {
    const std::int64_t* sample = memory.data() + m;
    if (sample[1] < 0 || sample[1] >= kMostDevices) refuse_message();
    log.memory.push_back({time_of(sample[0]), static_cast<int>(sample[1]), sample[2]});
  }
  const std::vector<std::string> devices = lines_in(message[5]);
  if (sizes.size() != devices.size() || devices.size() % 2 != 0) refuse_message();
  for (std::size_t d = 0; d < devices.size(); d += 2)
    log.devices.push_back({devices[d], devices[d + 1], static_cast<int>(sizes[d]), sizes[d + 1]});
  for (std::size_t s = 0; s < steps.size(); s += kNumbersOfStep) {
    const std::int64_t* step = steps.data() + s;
    log.steps.push_back({static_cast<int>(step[0]), time_of(step[1]), time_of(step[2])});
  }
  return log;
}

void set_to_first_clock(HostLog& log, int rank, const std::vector<RankClock>& clocks, const std::vector<int>& rank_of_device) {
  const RankClock& own = clocks.at(as_index(rank));
  for (HostLog::Lane& lane : log.lanes) {
    if (as_index(lane.device) >= rank_of_device.size()) refuse_message();
    const RankClock& of_device = clocks.at(as_index(rank_of_device[as_index(lane.device)]));
    for (LaneLog::Entry& entry : lane.entries) {
      entry.start = on_first_clock(entry.start, of_device);
      entry.end = on_first_clock(entry.end, own);
    }
  }
  for (HostLog::Memory& sample : log.memory) sample.time = on_first_clock(sample.time, own);
  for (HostLog::Step& step : log.steps) {
    step.start = on_first_clock(step.start, own);
    step.end = on_first_clock(step.end, own);
  }
}

RankClockWatch::RankClockWatch(const std::shared_ptr<RankGroup>& ranks) {
  if (!ranks) return;
  streams_.emplace(ranks);
  before_ = read_clocks(*streams_, kTag);
}

std::vector<RankClock> RankClockWatch::stop() {
  if (!streams_) return {RankClock{}};
  return exchange_clocks(*streams_, kTag + 1, clock_between(before_, read_clocks(*streams_, kTag)));
}

double clock_error_s(const std::vector<RankClock>& clocks) {
  std::vector<double> errors;
  for (const RankClock& clock : clocks) errors.push_back(std::chrono::duration<double>(clock.error).count());
  std::ranges::sort(errors, std::ranges::greater{});
  return errors[0] + (errors.size() > 1 ? errors[1] : 0);
}

}  // namespace mptune::tuner
