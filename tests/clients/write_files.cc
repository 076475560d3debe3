// Writes the golden trace in the formats that other programs read, and the numbers that they should find:
//
//     write_files FOLDER     -> FOLDER/golden.sqlite, FOLDER/kineto/golden.rankN.json, FOLDER/expected.json

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "profiler/trace/formats/kineto.h"
#include "profiler/trace/store/store.h"
#include "profiler/trace/values/intervals.h"
#include "tests/support/hand_trace.h"

namespace mptune::testing {
namespace {

// The hand-made trace lasts 100 ns, too short for clients that count microseconds.
constexpr int kStretch = 1'000'003;

void stretch(Trace& trace) {
  for (std::vector<Event>* list : {&trace.events, &trace.ranges}) {
    for (Event& event : *list) {
      event.start *= kStretch;
      event.duration *= kStretch;
    }
  }
  for (Launch& launch : trace.launches) {
    launch.start *= kStretch;
    launch.end = launch.start + Nanoseconds{1000};
  }
  for (StepWindow& step : trace.steps) {
    step.start *= kStretch;
    step.end *= kStretch;
  }
  for (MemorySample& sample : trace.memory) sample.time *= kStretch;
}

nlohmann::json expectation(const Trace& trace, int device) {
  std::vector<profiler::TimeInterval> compute;
  std::vector<profiler::TimeInterval> all;
  for (const Event& event : trace.events) {
    if (event.device != device || (!is_compute(event.kind) && event.kind != EventKind::copy)) continue;
    all.push_back({event.start, event.end()});
    if (event.kind != EventKind::copy && event.kind != EventKind::memset) compute.push_back(all.back());
  }
  all = profiler::merge(all);
  const Nanoseconds busy = profiler::total(all);
  return {{"compute_ns", profiler::total(profiler::merge(compute)).count()},
          {"busy_ns", busy.count()},
          {"idle_ns", (all.back().end - all.front().start - busy).count()},
          {"intervals", all.size()}};
}

void write(const std::filesystem::path& folder) {
  Trace trace = testing::hand_trace();
  stretch(trace);
  std::filesystem::create_directories(folder / "kineto");
  profiler::write_recording({.trace = trace}, (folder / "golden.sqlite").string(), true);
  profiler::write_kineto(trace, (folder / "kineto" / "golden.json").string());
  nlohmann::json expected = nlohmann::json::array();
  for (int device = 0; device < static_cast<int>(trace.devices.size()); ++device) expected.push_back(expectation(trace, device));
  std::ofstream(folder / "expected.json") << expected.dump(2) << "\n";
}

}  // namespace
}  // namespace mptune::testing

int main(int count, char** arguments) {
  if (count != 2) return 2;
  mptune::testing::write(arguments[1]);
  return 0;
}
