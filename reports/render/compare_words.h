#pragma once

#include <string>
#include <vector>

#include "reports/values/comparison.h"

namespace mptune::reports {

/// Words that the text, the Markdown and the JSON of `compare` share.

/// Describes a change: "stage:0/0: straggler idle +22.1 s, +12.0 % of the step".
[[nodiscard]] std::string sentence(const LargestChange& change);

/// Describes a cause: "imbalance idle on cpu:1 +12.0 ms, 95 % [10.0, 14.0] ms, 80 % of the difference".
[[nodiscard]] std::string sentence(const MainCause& cause);

/// Says why the verdict is what it is, and what made B slower or faster.
[[nodiscard]] std::string reason_text(const Comparison& comparison);

/// Returns "B takes 1.343 times as long as A, 95 % [1.310, 1.372]"; "" without a ratio.
[[nodiscard]] std::string ratio_text(const Comparison& comparison);

/// Describes a difference: "CPU: EPYC 7763 -> Xeon 8481C".
[[nodiscard]] std::string text_of(const Unlike& thing);

/// Says what to know before the numbers: sides on two machines, steps of different work, drift that the interval does not cover.
[[nodiscard]] std::vector<std::string> warnings_of(const Comparison& comparison);

/// Returns "18.9 samples/s".
[[nodiscard]] std::string rate_text(double samples_per_second);

/// Returns "step 412 ms, 95 % [410, 414] ms, 44 measurements", or for several recordings their medians.
[[nodiscard]] std::string step_text(const ComparedSide& side);

/// Returns a side's baselines and plans without measurement, a line each: "single_device: crashed by signal 11; predicted 520 ms".
[[nodiscard]] std::vector<std::string> unmeasured_lines(const ComparedSide& side);

/// Returns "+12.0 ms", "-3.00 us".
[[nodiscard]] std::string with_sign(double seconds);
/// Returns "+12.0 %".
[[nodiscard]] std::string share_text(double share);

/// Returns "+12.0 ms, +3.0 %", or "no clear change" where the interval of the difference holds 0.
[[nodiscard]] std::string change_text(const PartChange& part, const DeviceChange& device);

/// Returns the parts and causes of a device that are at least 0.05 % of its step.
[[nodiscard]] std::vector<const PartChange*> shown_parts(const DeviceChange& device);

}  // namespace mptune::reports
