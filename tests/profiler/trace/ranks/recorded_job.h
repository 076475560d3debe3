#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "profiler/trace/ranks/clocks.h"
#include "profiler/trace/values/communication.h"

namespace mptune::profiler::testing {

/// The recording of one process, written in true times and kept on a clock of its own: true = own + offset + drift * own.
class RecordedRank {
 public:
  RecordedRank(int rank, Nanoseconds offset = {}, double drift = 0) : offset_(offset), drift_(drift) {
    recording_.rank = rank;
    recording_.file = "rank" + std::to_string(rank) + ".json";
    recording_.trace.devices.push_back({.name = "cuda:0", .description = "CUDA device"});
  }

  [[nodiscard]] Nanoseconds own(std::int64_t ns) const {
    return Nanoseconds{std::llround(static_cast<double>(ns - offset_.count()) / (1 + drift_))};
  }

  RecordedRank& step(int number, std::int64_t start, std::int64_t end) {
    recording_.trace.steps.push_back({number, own(start), own(end)});
    return *this;
  }
  RecordedRank& compute(std::int64_t start, std::int64_t end) { return event(start, end, EventKind::kernel, 0, "gemm"); }
  RecordedRank& collective(std::int64_t start, std::int64_t end, std::int64_t sequence, const std::string& operation = "allreduce") {
    Communication one{.operation = operation, .group = "0 [0, 1]", .members = {0, 1}, .sequence = sequence, .bytes = 4096};
    return communicate(start, end, one);
  }
  RecordedRank& send(std::int64_t start, std::int64_t end, int to, std::int64_t bytes = 100) {
    return communicate(
        start, end,
        {.kind = Communication::Kind::send, .operation = "send", .group = "0 [0, 1]", .members = {0, 1}, .peer = to, .bytes = bytes});
  }
  RecordedRank& receive(std::int64_t start, std::int64_t end, int from, std::int64_t bytes = 100) {
    return communicate(
        start, end,
        {.kind = Communication::Kind::receive, .operation = "recv", .group = "0 [0, 1]", .members = {0, 1}, .peer = from, .bytes = bytes});
  }
  /// What the kernel before does, too.
  RecordedRank& also(Communication::Kind kind, int peer) {
    Communication one = recording_.communications.back();
    one.kind = kind;
    one.peer = peer;
    recording_.communications.push_back(one);
    return *this;
  }

  RankRecording recording() const { return recording_; }

 private:
  RecordedRank& event(std::int64_t start, std::int64_t end, EventKind kind, std::uint8_t lane, const std::string& name) {
    std::vector<std::string>& names = recording_.trace.names;
    const auto known = std::ranges::find(names, name);
    const auto index = static_cast<std::int32_t>(known - names.begin());
    if (known == names.end()) names.push_back(name);
    recording_.trace.events.push_back({.start = own(start), .duration = own(end) - own(start), .name = index, .lane = lane, .kind = kind});
    return *this;
  }
  RecordedRank& communicate(std::int64_t start, std::int64_t end, Communication one) {
    event(start, end, EventKind::collective, 1, "ncclDevKernel_" + one.operation);
    one.event = static_cast<int>(recording_.trace.events.size()) - 1;
    for (const StepWindow& step : recording_.trace.steps)
      if (own(start) >= step.start && own(start) < step.end) one.step = step.step;
    recording_.communications.push_back(one);
    return *this;
  }

  Nanoseconds offset_;
  double drift_;
  RankRecording recording_;
};

}  // namespace mptune::profiler::testing
