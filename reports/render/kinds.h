#pragma once

#include <string>
#include <vector>

#include "reports/render/style.h"
#include "tuner/study/recommend/recommend.h"

namespace mptune::reports {

/// A row of the table of kinds, in words.
struct KindCells {
  std::string kind, step, interval, speedup, peak, verdict;
  std::string detail;  ///< what the plan is and each device's peak; or why there is no plan
  bool best = false;
};
[[nodiscard]] std::vector<KindCells> kind_cells(const tuner::KindComparison& kinds);
/// Returns the first layers of the later stages: "; cuts 4,9"; "" for one stage.
[[nodiscard]] std::string cuts_text(const Plan& plan);

/// Renders which kind of parallelism is best: a row per kind with its plan under it, then the advice. "" without rows.
///
///     kind              step            95 %  speed-up      peak  verdict
///     -------------  -------  --------------  --------  --------  -----------
///     data parallel   384 ms  [351, 399] ms     2.28x   381 MiB  best
///       data parallel over 4 devices
[[nodiscard]] std::string render_kinds(const tuner::KindComparison& kinds, const TextStyle& style);

}  // namespace mptune::reports
