#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "profiler/trace/formats/chrome_events.h"
#include "profiler/trace/values/communication.h"

namespace mptune::profiler {

/// Ranks from this number on are not believed.
inline constexpr std::int64_t kMostRanks = std::int64_t{1} << 20;

/// Gathers what a Kineto trace says of communications between processes, in either place where PyTorch writes it:
/// - in the args of an NCCL kernel ("Collective name", "Process Group Ranks", ...),
/// - in `record_param_comms` rows of the host. Sends and receives of one NCCL group come before the call that launches their one kernel.
/// The kernel's own args count if it has them. If neither describes a kernel, ranges of the host do ("nccl:all_to_all", "nccl:send 0->1");
/// the group is not known then.
class KinetoCommunications {
 public:
  /// Looks at any row of the trace; its times as in the file.
  void take(const ChromeEvent& event);
  /// Notes that a call launched an NCCL kernel: its correlation and thread ("pid/tid") as in the file, its start, its place in the
  /// launches.
  void note_launch(std::int64_t correlation, const std::string& thread, Nanoseconds start, int launch);

  /// Returns the communications in the order of their launches. Their `event` holds the place of the launch, see note_launch;
  /// communications that no noted call launched are left out.
  [[nodiscard]] std::vector<Communication> by_launch() const;

 private:
  struct HostRow {
    Nanoseconds start{0};
    Communication communication;
  };
  /// A range of the host that names what its thread launches.
  struct NamedRange {
    Nanoseconds start{0};
    Nanoseconds end{0};
    Communication communication;
  };
  struct NotedLaunch {
    std::int64_t correlation = -1;
    std::string thread;
    Nanoseconds start{0};
    int launch = -1;
  };

  std::unordered_map<std::int64_t, Communication> of_kernel_;  ///< by correlation
  std::unordered_map<std::string, std::vector<HostRow>> of_thread_;
  std::unordered_map<std::string, std::vector<NamedRange>> ranges_of_thread_;
  std::vector<NotedLaunch> launches_;
};

/// Returns "[0, 1, 2]" as numbers. Longer lists are written as "[0, 1, ..., 63]": for these, as for any other text, the result is empty.
[[nodiscard]] std::vector<int> ranks_in(const std::string& text);
/// Returns the size of an element of PyTorch's types as traces name them: "Float", "BFloat16"; 0 for an unknown one.
[[nodiscard]] std::int64_t bytes_of_type(const std::string& name);

}  // namespace mptune::profiler
