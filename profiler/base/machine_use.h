#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace mptune {

/// CPU time of some cores since the machine started, summed over them, and of this process [s].
struct MachineUse {
  double busy_s = 0;    ///< the cores ran a program, the kernel included
  double stolen_s = 0;  ///< the hypervisor ran other machines on them
  double own_s = 0;     ///< this process, on whatever core
  double wall_s = 0;    ///< steady clock
};

/// Processor time of this process so far, all threads together [s].
[[nodiscard]] double processor_time_s();

/// Returns the use so far; nullopt where the kernel does not tell (no /proc/stat, or not for these cores). The cores' times have the
/// resolution of a clock tick, mostly 10 ms.
[[nodiscard]] std::optional<MachineUse> machine_use(const std::vector<int>& cores);

/// Returns the busy and stolen time of `cores` in the text of /proc/stat (proc(5)); nullopt if a core has no row.
[[nodiscard]] std::optional<MachineUse> use_in(std::string_view proc_stat, const std::vector<int>& cores, double ticks_per_second);

/// Returns the time of a fixed chain of dependent operations in registers, about 0.1 ms [s]: it grows as the clock rate of the core falls.
/// It is the least of several runs, so that other programs do not count.
[[nodiscard]] double clock_probe_s();

}  // namespace mptune
