#pragma once

#include <map>
#include <utility>
#include <vector>

#include "mptune/profiler/trace/trace.h"

namespace mptune {

/// What a host saw itself doing while it gave GPUs their work: a part of merge_traces(). Both traces outlive it.
class HostView {
 public:
  /// `gpus_started` is time 0 of `gpus` in `host`. Requires: events of `host` ordered by start.
  HostView(const Trace& host, const Trace& gpus, Nanoseconds gpus_started);

  static constexpr int kNone = -1;

  /// The host's event during which it launched this event of a GPU for the same action, kNone where none or more than one fits.
  [[nodiscard]] int of(int gpu_event) const;
  /// The call that launched an event of a GPU, null where it is not known; times are those of the GPUs' trace.
  [[nodiscard]] const Launch* launch(int gpu_event) const { return launch_of_.at(static_cast<std::size_t>(gpu_event)); }
  /// Whether a device of the host's is a GPU or a part of one.
  [[nodiscard]] bool on_gpu(int device) const;
  /// What only a GPU's recorder knows the times of: its work, and copies from and to it.
  [[nodiscard]] bool is_gpu_work(const Event& host_event) const;
  /// Whether a device of the host's is this GPU of the GPUs' trace, or like "cuda:0/1of2" a part of it.
  [[nodiscard]] bool lies_on(int device, int gpu) const;
  /// The first device of the host's that is this GPU or a part of it, kNone for none.
  [[nodiscard]] int first_device_on(int gpu) const;
  /// The device of the host's on this GPU that runs the tag's stage, kNone for none.
  [[nodiscard]] int device_of_stage(const Tag& tag, int gpu) const;

 private:
  [[nodiscard]] int lasting(const std::vector<int>& lane, Nanoseconds time) const;
  [[nodiscard]] bool is_work_of(int host_event, const Event& gpu_event) const;
  [[nodiscard]] bool is_copy_of(int host_event, const Event& gpu_event) const;

  const Trace& host_;
  const Trace& gpus_;
  Nanoseconds shift_;
  std::map<std::pair<int, int>, std::vector<int>> lanes_;  // GPU work by device and lane, ordered by start
  std::map<std::pair<int, int>, int> device_of_stage_;     // by stage and replica
  std::vector<const Launch*> launch_of_;                   // by event of gpus_
};

}  // namespace mptune
