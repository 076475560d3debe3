#include <algorithm>

#include "profiler/base/index.h"
#include "profiler/base/new_file.h"
#include "profiler/trace/formats/nvtxt.h"

namespace mptune::profiler {
namespace {

constexpr int kStepsLane = 998;
constexpr int kActionsLane = 999;

int thread_of(int device, int lane) {
  return 1000 * (device + 1) + lane;
}

// Quotes a text for the format, which has no escape sequences.
std::string quoted(std::string text) {
  for (char& c : text) {
    if (c == '"') c = '\'';
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  return '"' + text + '"';
}

class NvtxtWriter {
 public:
  NvtxtWriter(const Trace& trace, const std::string& path) : trace_(trace), file_(path) {
    for (const Event& one : trace.events) shift_ = std::min(shift_, one.start);
    for (const Event& one : trace.ranges) shift_ = std::min(shift_, one.start);
    for (const StepWindow& one : trace.steps) shift_ = std::min(shift_, one.start);
  }

  void write() {
    file_ << "SetFileDisplayName, mptune\n"
             "@RangeStartEnd, Start, End, ThreadId, Message\n"
             "ProcessId = 1\nCategoryId = 1\nColor = Blue\nTimeBase = Relative\n"
             "@Marker, Time, ThreadId, Message\n"
             "ProcessId = 1\nCategoryId = 1\nColor = Red\nTimeBase = Relative\n";
    for (const Event& one : trace_.events) range(one, one.lane);
    for (const Event& one : trace_.ranges) range(one, one.kind == EventKind::step ? kStepsLane : kActionsLane);
    for (const StepWindow& step : trace_.steps)
      file_ << "Marker, " << at(step.start) << ", " << std::to_string(thread_of(-1, kStepsLane)) << ", "
            << quoted("step " + std::to_string(step.step)) << "\n";
    file_.commit();
  }

 private:
  std::string at(Nanoseconds time) const { return std::to_string((time - shift_).count()); }

  void range(const Event& one, int lane) {
    file_ << "RangeStartEnd, " << at(one.start) << ", " << at(one.end()) << ", " << std::to_string(thread_of(one.device, lane)) << ", "
          << quoted(trace_.names[as_index(one.name)]) << "\n";
  }

  const Trace& trace_;
  NewFile file_;
  Nanoseconds shift_{0};
};

}  // namespace

void write_nvtxt(const Trace& trace, const std::string& path) {
  NvtxtWriter(trace, path).write();
}

}  // namespace mptune::profiler
