#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "profiler/trace/formats/chrome_events.h"

namespace mptune::profiler {

/// Who recorded what in a Chrome trace, by the names of its processes and threads and by the categories of its rows. Tells which rows are
/// work of a device in traces whose rows have no category of PyTorch's profiler, and what kind of devices the trace holds.
class TracedProcesses {
 public:
  /// Looks at any row of the trace; its times as in the file.
  void take(const ChromeEvent& event);

  /// Returns the work of GPUs in a trace of XLA (JAX, TensorFlow): rows of threads "Stream #N(...)" of processes "/device:GPU:N", with
  /// times that can be right, as PyTorch's profiler would write them. Other threads of these processes repeat the work in other words.
  [[nodiscard]] std::vector<ChromeEvent> work_of_xla() const;

  /// Returns what devices are called: "xpu" with calls of Intel's runtime, "npu" with calls of another accelerator's
  /// ("privateuse1_runtime", as Ascend's MSPTI writes them), "hpu" and "mtia" with calls of their runtimes, else "cuda".
  [[nodiscard]] const char* device_family() const { return family_; }

  /// True for a trace of Ascend's profiler (`trace_view.json`, `msprof_*.json`): its rows have no category, and several overlap.
  [[nodiscard]] bool is_of_ascend() const { return of_ascend_; }

  /// Throws the error that says why a trace without work of a known category can't be read, and what to do. `has_waits`: it has waits of
  /// GPUs.
  [[noreturn]] void refuse(const std::string& where, bool has_waits) const;

 private:
  struct Row {
    std::string process;
    std::string thread;
    std::string name;
    Nanoseconds start{0};
    Nanoseconds duration{0};
  };

  void take_name(const ChromeEvent& event);

  const char* family_ = "cuda";
  bool of_ascend_ = false;
  std::map<std::string, std::string> processes_;  // name by pid
  std::map<std::pair<std::string, std::string>, std::string> threads_;
  std::vector<Row> rows_;  // without category
};

}  // namespace mptune::profiler
