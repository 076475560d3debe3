#pragma once

#include <string>
#include <utility>
#include <vector>

#include "planner/plan/file/plan_file.h"
#include "reports/render/style.h"

namespace mptune::reports {

/// Returns a sentence: "Pipeline of 2 stages, 1f1b, 4 micro-batches of 4: measured 1.73 times as fast as naive_model_parallel (95 %
/// interval 1.70 to 1.76)."
[[nodiscard]] std::string plan_file_sentence(const PlanFile& file);
/// Returns names and values of what is known: what the plan was made for, when and by which trial.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> plan_file_facts(const PlanFile& file);

/// Returns "step: measured 301 ms, 95 % [299, 303] ms, 44 measurements; predicted 295 ms", then each device's peak memory.
[[nodiscard]] std::vector<std::string> plan_file_lines(const PlanFile& file);

/// Renders a plan file as text: the sentence, stages, step times, memory, alternatives, facts.
[[nodiscard]] std::string render_plan_file(const PlanFile& file, const TextStyle& style);

}  // namespace mptune::reports
