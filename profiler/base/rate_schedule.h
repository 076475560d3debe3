#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace mptune {

/// How a learning rate goes down after its warm-up: not at all, in a line, along half a cosine.
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
  std::int64_t warmup_steps = 0;  ///< steps in which the rate goes up in a line
  double warmup_share = 0;        ///< in place of these, of all steps
  double end = 0;                 ///< share of the rate that the decay ends with
  bool operator==(const RateSchedule&) const = default;
};

/// What step `step` (from 0) of `steps` multiplies the learning rate by: (step + 1) / warmup, and then, with t the share of the steps
/// behind the warm-up that is over, 1 - (1 - end) t (linear) or end + (1 - end) (1 + cos(pi t)) / 2 (cosine), as LinearLR and
/// CosineAnnealingLR of PyTorch. Throws Error (usage) where the warm-up takes all steps.
[[nodiscard]] double rate_factor(const RateSchedule& schedule, std::int64_t step, std::int64_t steps);

/// Throws Error (usage) for another name, and for a part that the schedule does not have or whose value does not fit.
[[nodiscard]] RateSchedule parse_rate_schedule(const std::string& text);

}  // namespace mptune
