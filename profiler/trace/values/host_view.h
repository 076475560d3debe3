#pragma once

#include <map>
#include <utility>
#include <vector>

#include "profiler/base/index.h"
#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// Finds, for events that GPUs recorded, the events that the host recorded while it launched them. A part of merge_traces().
/// Both traces must outlive it.
class HostView {
 public:
  /// `gpus_started` is time 0 of `gpus` on the clock of `host`. Requires: events of `host` ordered by start.
  HostView(const Trace& host, const Trace& gpus, Nanoseconds gpus_started);

  static constexpr int kNone = -1;

  /// Returns the host's event during which this GPU event was launched, for the same action. kNone if no event or more than one fits.
  [[nodiscard]] int of(int gpu_event) const;
  /// Returns the call that launched a GPU event, on the clock of `gpus`; null if unknown.
  [[nodiscard]] const Launch* launch(int gpu_event) const { return launch_of_.at(as_index(gpu_event)); }
  /// True if a device of the host's trace is a GPU or a part of one.
  [[nodiscard]] bool on_gpu(int device) const;
  /// True for work of a GPU and for copies from and to one: only a GPU's recorder knows their times.
  [[nodiscard]] bool is_gpu_work(const Event& host_event) const;
  /// True if a device of the host's trace is this GPU of the GPUs' trace, or a part of it like "cuda:0/1of2".
  [[nodiscard]] bool lies_on(int device, int gpu) const;
  /// Returns the first device of the host's trace that is this GPU or a part of it; kNone if there is none.
  [[nodiscard]] int first_device_on(int gpu) const;
  /// Returns the device of the host's trace that lies on this GPU and runs the tag's stage; kNone if there is none.
  [[nodiscard]] int device_of_stage(const Tag& tag, int gpu) const;

 private:
  [[nodiscard]] int event_at(const std::vector<int>& lane, Nanoseconds time) const;
  [[nodiscard]] bool is_work_of(int host_event, const Event& gpu_event) const;
  [[nodiscard]] bool is_copy_of(int host_event, const Event& gpu_event) const;

  const Trace& host_;
  const Trace& gpus_;
  Nanoseconds shift_;
  std::map<std::pair<int, int>, std::vector<int>> lanes_;  // GPU work by device and lane, ordered by start
  std::map<std::pair<int, int>, int> device_of_stage_;     // by stage and replica
  std::vector<const Launch*> launch_of_;                   // by event of gpus_
};

}  // namespace mptune::profiler
