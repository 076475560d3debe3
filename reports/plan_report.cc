#include "mptune/reports/plan_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "mptune/reports/plan_changes.h"

namespace mptune {
namespace {

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", std::abs(share) * 100);
  return text;
}

std::string joined(const std::vector<std::string>& parts, const char* separator) {
  std::string text;
  for (const std::string& part : parts) {
    text += (text.empty() ? "" : separator) + part;
  }
  return text;
}

std::int64_t most_of(const std::vector<std::int64_t>& bytes) {
  return bytes.empty() ? 0 : *std::ranges::max_element(bytes);
}

std::string recompute_words(const Recompute& recompute) {
  if (recompute.mode == Recompute::Mode::none) {
    return "none";
  }
  if (recompute.mode == Recompute::Mode::all) {
    return "all";
  }
  std::vector<std::string> layers;
  for (const int layer : recompute.layers) {
    layers.push_back(std::to_string(layer));
  }
  return "layers " + joined(layers, ",");
}

double step_of_layer(const Plan& plan, const Stage& stage, int layer, const CostModel& cost) {
  const int device = cost.device_index(plan.devices[static_cast<std::size_t>(stage.devices.front())]);
  double sum = 0;
  for (const int samples : plan.microbatch_sizes) {
    const LayerTimes times = cost.layer(device, layer, samples);
    sum += times.forward_s + times.backward_s;
  }
  return sum / static_cast<double>(stage.devices.size());
}

std::string module_range(const Profile& profile, int first, int last) {
  const std::string& from = profile.layers[static_cast<std::size_t>(first)].name;
  const std::string& to = profile.layers[static_cast<std::size_t>(last) - 1].name;
  return from == to ? from : from + " .. " + to;
}

void add_partition(const Candidate& best, const CostModel& cost, PlanReport& report) {
  const Plan& plan = best.plan;
  for (int s = 0; s < plan.num_stages(); ++s) {
    const Stage& stage = plan.stages[static_cast<std::size_t>(s)];
    PlannedStage row;
    row.first_layer = stage.first_layer;
    row.last_layer = stage.last_layer;
    row.recompute = recompute_words(stage.recompute);
    row.modules = module_range(cost.profile(), stage.first_layer, stage.last_layer);
    for (const int device : stage.devices) {
      row.devices.push_back(plan.devices[static_cast<std::size_t>(device)]);
      row.peak_bytes = std::max(row.peak_bytes, best.prediction.peak_bytes[static_cast<std::size_t>(device)]);
    }
    for (int layer = stage.first_layer; layer < stage.last_layer; ++layer) {
      const double step_s = step_of_layer(plan, stage, layer, cost);
      report.layers.push_back({cost.profile().layers[static_cast<std::size_t>(layer)].name, s, step_s});
      row.step_s += step_s;
    }
    report.stages.push_back(std::move(row));
  }
}

std::string limit_words(const Candidate& best, const CostModel& cost) {
  const auto limit = stage_limit(best, cost);
  if (!limit) {
    return "";
  }
  const auto layer_name = [&](int layer) {
    return "layer " + std::to_string(layer) + " (" + cost.profile().layers[static_cast<std::size_t>(layer)].name + ")";
  };
  std::string text = "stage " + std::to_string(limit->stage) + " on " + best.plan.devices[static_cast<std::size_t>(limit->device)] +
                     " limits the step: it computes " + percent(limit->busy_s / best.prediction.step_s) + " of it";
  const Stage& stage = best.plan.stages[static_cast<std::size_t>(limit->stage)];
  if (stage.last_layer - stage.first_layer == 1) {
    return text + ", all of it " + layer_name(limit->layer) + ", which cannot be cut";
  }
  text += ", " + percent(limit->layer_s / limit->busy_s) + " of that in " + layer_name(limit->layer);
  for (const StageLimit::Move& move : limit->moves) {
    const double share = move.step_s / best.prediction.step_s - 1;
    text += "; with " + layer_name(move.layer) + " on stage " + std::to_string(move.to_stage) + " the step would be " + percent(share) +
            (share < 0 ? " shorter, but ties or memory forbid it" : " longer");
  }
  return text;
}

PlannedOther other_of(const Candidate& candidate, const std::string& what) {
  return {candidate.prediction.step_s, most_of(candidate.prediction.peak_bytes), what};
}

void add_timeline(const Candidate& best, const CostModel& cost, PlanReport& report) {
  const Simulation simulation = simulate(best.plan, cost);
  report.trace = build_trace_report(simulation.trace, simulation.prediction.peak_bytes, "Predicted: " + report.description);
}

}  // namespace

std::string compared_with(const Candidate& best, const Candidate& other) {
  const double share = other.prediction.step_s / best.prediction.step_s - 1;
  const std::string changes = joined(plan_changes(best.plan, other.plan), "; ");
  return percent(share) + (share < 0 ? " faster: " : " slower: ") + changes;
}

PlanReport build_plan_report(const SearchResult& result, const std::vector<Candidate>& front, const CostModel& cost) {
  const Candidate& best = result.ranked.front();
  PlanReport report;
  report.title = cost.profile().model + ": " + std::to_string(best.plan.global_batch_size()) + " samples";
  report.description = describe(best.plan);
  report.step_s = best.prediction.step_s;
  report.lower_bound_s = result.lower_bound_s;
  report.complete = result.complete;
  report.schedule_bound_s = best.prediction.lower_bound_s;
  report.extrapolated = best.prediction.extrapolated;
  report.simulated = result.simulated;
  add_partition(best, cost, report);
  report.limit = limit_words(best, cost);
  add_timeline(best, cost, report);
  for (std::size_t i = 1; i < result.ranked.size(); ++i) {
    report.alternatives.push_back(other_of(result.ranked[i], joined(plan_changes(best.plan, result.ranked[i].plan), "; ")));
  }
  for (const Candidate& candidate : front) {
    report.front.push_back(other_of(candidate, describe(candidate.plan)));
  }
  report.rejected = result.rejected;
  report.classes = result.classes;
  for (const NotExecutable& plan : result.not_executable) {
    report.not_executable.push_back(other_of(plan.candidate, describe(plan.candidate.plan) + ": " + plan.reason));
  }
  return report;
}

}  // namespace mptune
