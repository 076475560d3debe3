#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/plan/plan.h"
#include "reports/render/style.h"
#include "reports/render/unmeasured.h"
#include "reports/values/report.h"

namespace mptune::reports {

/// Renders the answer of one trace (render_trace_answer) and the lines `next` on what to do with it; then breakdown, causes of idle,
/// advice, timeline and memory.
[[nodiscard]] std::string render_trace_report(const TraceReport& report, const TextStyle& style, const std::vector<std::string>& next = {});

/// Renders a line per device with its causes of idle time, largest first, in shares of the step; then the idle time of all devices beside
/// the theoretical bubble.
///
///     cpu:0    14.9 % idle  pipeline bubble 9.1 %, imbalance 4.0 %, jitter 1.8 %
///     all      28.6 % idle  in theory 20.0 % (equal stages, free copies)
[[nodiscard]] std::string render_idle(const TraceReport& report, const TextStyle& style);

/// Says in up to three sentences where the time goes, the largest cause of idle time, and the change that helps most.
[[nodiscard]] std::string render_trace_answer(const TraceReport& report, const TextStyle& style);

/// Renders a line per change that would help, largest first, with its worth; then what shrinks causes of idle time that no priced change
/// removes, worth their whole time at most. Without a change, it first says why there is none.
///
///      40.0 ms   10.0 %  --microbatches 8 instead of 4 (simulated)
///      16.0 ms    4.0 %  at most, exposed communication: cut where less is sent (--cuts), or hide copies behind work with more ...
[[nodiscard]] std::string render_advice(const TraceReport& report, const TextStyle& style);

/// Returns "93.7 % of 300 MiB", "OVER its cap of 300 MiB by 112 MiB"; "" where either is not known.
[[nodiscard]] std::string cap_text(std::int64_t peak_bytes, std::int64_t cap_bytes);

/// Draws memory in use over the step with the cap's line (for more than eight devices, a line each), the peak against the cap, and what the
/// peak is made of; "" where nothing is known. A cap far above everything is not drawn.
///
///     cpu:0  ╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌ cap 400 MiB
///               ▂▄▆▇███▇▆▄▂
///            ▆██████████████▆▆
///            peak 381 MiB, 95.2 % of 400 MiB; predicted 385 MiB: activations of micro-batches 0 to 3 190 MiB, parameters ...
[[nodiscard]] std::string render_memory(const TraceReport& report, const TextStyle& style);

/// Renders shares of the critical path, what the links carried, and how well the clocks agree.
[[nodiscard]] std::string render_details(const TraceReport& report, const TextStyle& style);

/// Returns the causes of idle time as shares of the step, largest first: "pipeline bubble 9.1 %, imbalance 4.0 %".
[[nodiscard]] std::string causes_text(const DeviceRow& row);
/// Says how well the clocks agree and which events were lost, as render_details() does.
[[nodiscard]] std::vector<std::string> recording_sentences(const TraceReport& report);
/// Says how the peak compares with its cap, and what it is made of, as render_memory() does.
[[nodiscard]] std::string contents_text(const MemoryRow& row);

/// Renders the whole of a study: card, comparison with error bars, failed plans, scaling efficiency, curve, breakdown, timeline, files,
/// command to paste.
[[nodiscard]] std::string render_study_report(const StudyReport& report, const TextStyle& style, Listing failed = Listing::few);

/// Returns the scaling efficiency of the plans, a sentence each.
[[nodiscard]] std::vector<std::string> limit_sentences(const StudyReport& report);
/// Returns a row per stage: number, devices, layers, recomputation, offloading where a stage of the plan does it, modules.
[[nodiscard]] std::vector<std::vector<std::string>> stage_cells(const Plan& plan, const std::vector<std::vector<std::string>>& modules);
/// Returns the titles of stage_cells(), with ">" before the title of a number.
[[nodiscard]] std::vector<std::string> stage_titles(const Plan& plan);
/// Renders a line per stage: devices, layers, recomputation. `modules` may be empty; else it has one list per stage.
[[nodiscard]] std::string render_stages(const Plan& plan, const std::vector<std::vector<std::string>>& modules, const TextStyle& style);

/// Returns "1.51x [1.49, 1.53] FAST"; for few pairs, with their range: "2.43x (2.31 to 2.50) FAST"; without a verdict "2.43x UNKNOWN".
[[nodiscard]] std::string format_speedup(const Speedup& speedup);
/// Says after a speed-up how sure it is: " (95 % interval 1.49 to 1.53)"; for few pairs " (2.31 to 2.50 in 4 pairs, error rate 2.9 %)".
[[nodiscard]] std::string evidence_in_brackets(const Speedup& speedup);
/// Does what format_speedup() does for the recommended plan over a baseline, or returns "same plan".
[[nodiscard]] std::string format_speedup_over(const tuner::BaselineResult& baseline, const tuner::RecommendedPlan& recommended);

}  // namespace mptune::reports
