#pragma once

#include <array>
#include <optional>
#include <vector>

#include "profiler/base/machine_use.h"

namespace mptune::tuner {

struct Trial;

/// What made rounds of a series longer than the plans are.
enum class DisturbedBy { other_programs, other_machines, slow_clock };
/// Their names in studies, messages and JSON.
inline constexpr std::array kDisturbedByNames = {"other_programs", "other_machines", "slow_clock"};

struct Disturbance {
  DisturbedBy by = DisturbedBy::other_programs;
  double share = 0;  ///< share of the cores' time that others took, or of its usual rate that the clock lost
  bool operator==(const Disturbance&) const = default;
};

/// Rounds of a series, both ends included, and what disturbed them.
struct DisturbedRounds {
  int first = 0;
  int last = 0;
  Disturbance disturbance;
};

/// What the samples of a trial went through.
struct Noise {
  int left_out = 0;                  ///< disturbed rounds that were repeated and do not count
  int kept = 0;                      ///< disturbed rounds that count, because too few others were measured
  std::optional<Disturbance> worst;  ///< the worst disturbance of these rounds
  bool operator==(const Noise&) const = default;
};

/// The shortest time over which the use of cores is judged [s]: the kernel counts it in ticks of 10 ms.
inline constexpr double kLeastJudged = 0.5;

/// Returns the largest cause that disturbed the time from `before` to `after` on `cores` cores; empty where a repetition is not worth it.
/// Other programs may take up to 5 % of the cores' time, other machines up to 2 %, and the clock may be up to 10 % slower than usual.
/// `probe_s`: clock_probe_s() now; `usual_probe_s`: the least before.
[[nodiscard]] std::optional<Disturbance> judge_use(const MachineUse& before, const MachineUse& after, int cores, double probe_s,
                                                   double usual_probe_s);

/// Leaves the samples of disturbed rounds out of each measured trial that has at least `enough` other samples; in other trials all samples
/// count. The trial's `noise` notes which of the two was done.
void leave_out_disturbed(std::vector<Trial>& trials, const std::vector<DisturbedRounds>& disturbed, int enough);

}  // namespace mptune::tuner
