#pragma once

#include <string>
#include <vector>

#include "reports/render/style.h"
#include "tuner/study/recommend/unmeasured.h"

namespace mptune::reports {

/// Whether long lists end after a few items.
enum class Listing { few, all };

/// Says why a baseline has no step in the comparison, and what is known of it: "crashed by signal 11; predicted 520 ms".
[[nodiscard]] std::string unmeasured_text(const tuner::UnmeasuredPlan& plan);

/// Plans that failed for one cause.
struct FailedLines {
  std::string cause;               ///< "crashed by signal 11: 5 plans"
  std::vector<std::string> plans;  ///< "pipeline of 2 stages, 1f1b, 4 micro-batches of 2; cuts 7; predicted 31.0 ms"
  int more = 0;                    ///< plans that are not listed
};
[[nodiscard]] std::vector<FailedLines> failed_lines(const std::vector<tuner::UnmeasuredPlan>& plans, Listing listing);
/// Returns "5 plans failed".
[[nodiscard]] std::string failed_title(const std::vector<tuner::UnmeasuredPlan>& plans);

/// Renders each cause once, with its plans under it. "" without plans.
///
///     crashed by signal 11: 5 plans
///       pipeline of 2 stages, 1f1b, 4 micro-batches of 2; cuts 7; predicted 31.0 ms
///       and 4 more: -v lists all
[[nodiscard]] std::string render_failed(const std::vector<tuner::UnmeasuredPlan>& plans, Listing listing, const TextStyle& style);

}  // namespace mptune::reports
