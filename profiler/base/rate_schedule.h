#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace mptune {

/// How a learning rate decays after its warm-up: not at all, linearly, or along half a cosine.
enum class RateDecay { constant, linear, cosine };
inline constexpr std::array kRateDecayNames = {"constant", "linear", "cosine"};

/// How a learning rate changes over a training, as users name it: "cosine:warmup=100:end=0.1", "linear:warmup=5%".
///
///     1 |    .-'''--.
///       |  .'        '-.
///       |.'             '-.__ end
///       +---+----------------
///        warmup            steps
struct RateSchedule {
  RateDecay decay = RateDecay::constant;
  std::int64_t warmup_steps = 0;  ///< steps in which the rate rises linearly
  double warmup_share = 0;        ///< warm-up as a share of all steps, used instead of warmup_steps; 0: not used
  double end = 0;                 ///< share of the rate that the decay ends with
  bool operator==(const RateSchedule&) const = default;
};

/// Returns the factor of the learning rate in step `step` (from 0) of `steps`. It is (step + 1) / warmup during the warm-up. Afterwards,
/// with t the share of the remaining steps that is over, it is 1 - (1 - end) t (linear) or end + (1 - end) (1 + cos(pi t)) / 2 (cosine), as
/// in PyTorch's LinearLR and CosineAnnealingLR. Throws Error (usage) if the warm-up takes all steps.
[[nodiscard]] double rate_factor(const RateSchedule& schedule, std::int64_t step, std::int64_t steps);

/// Throws Error (usage) for another name, and for a part that the schedule does not have or whose value does not fit.
[[nodiscard]] RateSchedule parse_rate_schedule(const std::string& text);

}  // namespace mptune
