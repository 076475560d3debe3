#pragma once

#include <string>

#include "reports/render/json.h"
#include "reports/values/comparison.h"

namespace mptune::reports {

/// The beginnings of the files below, by which a later run knows that they may be replaced.
inline constexpr const char* kComparisonComment = "<!-- mptune compare -->";
inline constexpr const char* kBenchmarksBegin = "[{\"name\":\"mptune";
inline constexpr const char* kJunitBegin = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"mptune compare\"";

/// Renders a comment on a pull request: render_compared_markdown() after a line that nobody sees, kComparisonComment, by which a later run
/// can find the comment.
[[nodiscard]] std::string comparison_comment(const Comparison& comparison);

/// Renders JUnit's XML: one test case, which takes as long as B's step. It fails where B is slower, and where nothing can be said if
/// `fails_if_inconclusive`; else it is then skipped.
[[nodiscard]] std::string comparison_junit(const Comparison& comparison, bool fails_if_inconclusive);

/// Returns B's step and the compute, copy and idle time of each of its devices, in milliseconds, as the list `customSmallerIsBetter` of
/// github-action-benchmark: `name`, `unit`, `value`, and `range`, the 95 % interval, where there is one. Empty where B has no step.
[[nodiscard]] planner::Json comparison_benchmarks(const Comparison& comparison);

}  // namespace mptune::reports
