#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/plan.h"
#include "reports/render/style.h"
#include "reports/render/unmeasured.h"
#include "reports/report.h"

namespace mptune::reports {

/// The answer of one trace (render_trace_answer) and the lines `next` on what to do with it; then breakdown, causes of idle, advice,
/// timeline and memory.
[[nodiscard]] std::string render_trace_report(const TraceReport& report, const TextStyle& style, const std::vector<std::string>& next = {});

/// A line per device with its causes of idle, largest first, in shares of the step; then all devices' idle time beside the theoretical
/// bubble.
///
///     cpu:0    14.9 % idle  pipeline bubble 9.1 %, imbalance 4.0 %, jitter 1.8 %
///     all      28.6 % idle  in theory 20.0 % (equal stages, free copies)
[[nodiscard]] std::string render_idle(const TraceReport& report, const TextStyle& style);

/// In up to three sentences: where the time goes, the largest cause of idle time, the change that helps most.
[[nodiscard]] std::string render_trace_answer(const TraceReport& report, const TextStyle& style);

/// A line per change that would help, largest first, with its worth: then what shrinks causes of idle time that no priced change removes,
/// worth their whole time at most. Else why there is none.
///
///      40.0 ms   10.0 %  --microbatches 8 instead of 4 (simulated)
///      16.0 ms    4.0 %  at most, exposed communication: cut where less is sent (--cuts), or hide copies behind work with more ...
[[nodiscard]] std::string render_advice(const TraceReport& report, const TextStyle& style);

/// "93.7 % of 300 MiB", "OVER its cap of 300 MiB by 112 MiB"; "" where either is not known.
[[nodiscard]] std::string cap_text(std::int64_t peak_bytes, std::int64_t cap_bytes);

/// Memory in use over the step with the cap's line (of more than eight devices a line each), the peak against the cap, and what the peak is
/// made of; "" where nothing is known. A cap far above everything is not drawn.
///
///     cpu:0  ╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌ cap 400 MiB
///               ▂▄▆▇███▇▆▄▂
///            ▆██████████████▆▆
///            peak 381 MiB, 95.2 % of 400 MiB; predicted 385 MiB: activations of micro-batches 0 to 3 190 MiB, parameters ...
[[nodiscard]] std::string render_memory(const TraceReport& report, const TextStyle& style);

/// Shares of the critical path, what the links carried, how well the clocks agree.
[[nodiscard]] std::string render_details(const TraceReport& report, const TextStyle& style);

/// "pipeline bubble 9.1 %, imbalance 4.0 %": causes of idle as shares of the step, largest first.
[[nodiscard]] std::string causes_text(const DeviceRow& row);
/// How well the clocks agree and which events were lost, as render_details says it.
[[nodiscard]] std::vector<std::string> recording_sentences(const TraceReport& report);
/// The peak against its cap, and what it is made of, as render_memory says it.
[[nodiscard]] std::string contents_text(const MemoryRow& row);

/// The whole of a study: card, comparison with error bars, failed plans, scaling efficiency, curve, breakdown, timeline, files, command to
/// paste.
[[nodiscard]] std::string render_study_report(const StudyReport& report, const TextStyle& style, Listing failed = Listing::few);

/// Scaling efficiency of the plans, a sentence each.
[[nodiscard]] std::vector<std::string> limit_sentences(const StudyReport& report);
/// A row per stage: number, devices, layers, recomputation, offloading where a stage of the plan does it, modules.
[[nodiscard]] std::vector<std::vector<std::string>> stage_cells(const Plan& plan, const std::vector<std::vector<std::string>>& modules);
/// Titles of these cells; ">" before that of a number.
[[nodiscard]] std::vector<std::string> stage_titles(const Plan& plan);
/// A line per stage: devices, layers, recomputation. `modules` may be empty; else one list per stage.
[[nodiscard]] std::string render_stages(const Plan& plan, const std::vector<std::vector<std::string>>& modules, const TextStyle& style);

/// "1.51x [1.49, 1.53] FAST"; of few pairs, with their range: "2.43x (2.31 to 2.50) FAST"; without a verdict "2.43x UNKNOWN".
[[nodiscard]] std::string format_speedup(const Speedup& speedup);
/// How sure that is, behind it: " (95 % interval 1.49 to 1.53)"; of few pairs " (2.31 to 2.50 in 4 pairs, error rate 2.9 %)".
[[nodiscard]] std::string evidence_in_brackets(const Speedup& speedup);
/// The same of the recommended plan over a baseline, or "same plan".
[[nodiscard]] std::string format_speedup_over(const tuner::BaselineResult& baseline, const tuner::RecommendedPlan& recommended);

}  // namespace mptune::reports
