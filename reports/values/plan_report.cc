#include "reports/values/plan_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "planner/plan/plan_words.h"
#include "planner/search/finish/offload_stages.h"
#include "profiler/base/index.h"
#include "profiler/base/text.h"
#include "reports/values/plan_changes.h"

namespace mptune::reports {
namespace {

/// A share less than this would be printed as 0.0 %.
constexpr double kSameShare = 0.0005;

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", std::abs(share) * 100);
  return text;
}

std::string joined(const std::vector<std::string>& parts, const char* separator) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : separator) + part;
  return text;
}

std::int64_t most_of(const std::vector<std::int64_t>& bytes) {
  return bytes.empty() ? 0 : *std::ranges::max_element(bytes);
}

std::vector<int> recomputed_layers(const Stage& stage) {
  if (stage.recompute.mode != Recompute::Mode::all) return stage.recompute.layers;
  std::vector<int> layers(as_index(stage.last_layer - stage.first_layer));
  std::iota(layers.begin(), layers.end(), stage.first_layer);
  return layers;
}

double step_of_layer(const Plan& plan, const Stage& stage, int layer, const CostModel& cost) {
  const int device = cost.device_index(plan.devices[as_index(stage.devices.front())]);
  double sum = 0;
  for (const int samples : plan.microbatch_sizes) {
    const LayerTimes times = cost.layer(device, layer, samples);
    sum += times.forward_s + times.backward_s;
  }
  return sum / static_cast<double>(stage.devices.size());
}

std::string module_range(const Profile& profile, int first, int last) {
  const std::string& from = profile.layers[as_index(first)].name;
  const std::string& to = profile.layers[as_index(last) - 1].name;
  return from == to ? from : from + " .. " + to;
}

/// Says why the layers of a stage take longer than the step.
std::string why_beyond_step(const Plan& plan, const Stage& stage) {
  if (plan.options.idle_devices_help) return "devices that wait compute some of its weight gradients";
  if (stage.devices.size() > 1) return "the time is that on its first device, and others are faster";
  if (fuses_weights(plan)) return "its weight gradients of several micro-batches are computed at once, which takes less";
  return "its split backward takes less than the whole one, of which the time is";
}

void add_partition(const Candidate& best, const CostModel& cost, PlanReport& report) {
  const Plan& plan = best.plan;
  report.layers = planned_layers(plan, cost);
  for (int s = 0; s < plan.num_stages(); ++s) {
    const Stage& stage = plan.stages[as_index(s)];
    PlannedStage row;
    row.first_layer = stage.first_layer;
    row.last_layer = stage.last_layer;
    row.recomputed = recomputed_layers(stage);
    row.offload = stage.offload;
    row.modules = module_range(cost.profile(), stage.first_layer, stage.last_layer);
    for (const int device : stage.devices) {
      row.devices.push_back(plan.devices[as_index(device)]);
      row.peak_bytes = std::max(row.peak_bytes, best.prediction.peak_bytes[as_index(device)]);
    }
    for (const PlannedLayer& layer : report.layers)
      if (layer.stage == s) row.step_s += layer.step_s;
    if (row.step_s > (1 + kSameShare) * best.prediction.step_s) row.beyond_step = why_beyond_step(plan, stage);
    report.stages.push_back(std::move(row));
  }
}

std::vector<std::int64_t> caps_of(const Plan& plan, const SearchSpace& space) {
  std::vector<std::int64_t> caps;
  for (const std::string& device : plan.devices) {
    const auto index = as_index(std::ranges::find(space.devices, device) - space.devices.begin());
    caps.push_back(index < space.memory_bytes.size() ? space.memory_bytes[index] : 0);
  }
  return caps;
}

std::string move_words(const planner::StageLimit::Move& move, double step_s) {
  const double share = move.step_s / step_s - 1;
  std::string text = std::abs(share) < kSameShare ? "as long" : percent(share) + (share < 0 ? " shorter" : " longer");
  if (move.excess_bytes > 0) return text + " and not fit into memory";
  return text + (share <= -kSameShare ? ", which this search did not see" : "");
}

std::string limit_words(const Candidate& best, const CostModel& cost, const SearchSpace& space) {
  const auto limit = planner::stage_limit(best, cost, caps_of(best.plan, space));
  if (!limit) return "";
  const auto layer_name = [&](int layer) {
    return "layer " + std::to_string(layer) + " (" + cost.profile().layers[as_index(layer)].name + ")";
  };
  std::string text = "stage " + std::to_string(limit->stage) + " on " + best.plan.devices[as_index(limit->device)] +
                     " limits the step: it computes " + percent(limit->busy_s / best.prediction.step_s) + " of it";
  const Stage& stage = best.plan.stages[as_index(limit->stage)];
  if (stage.last_layer - stage.first_layer == 1) return text + ", all of it " + layer_name(limit->layer) + ", which cannot be cut";
  text += ", " + percent(limit->layer_s / limit->busy_s) + " of that in " + layer_name(limit->layer);
  for (const planner::StageLimit::Move& move : limit->moves) {
    text += "; with " + layer_name(move.layer) + " on stage " + std::to_string(move.to_stage) + " the step would be " +
            move_words(move, best.prediction.step_s);
  }
  return text;
}

/// Returns the changes from `best`; with another number of stages the whole description, because nearly everything differs.
std::string what_differs(const Plan& best, const Plan& other) {
  if (best.num_stages() == other.num_stages()) return joined(plan_changes(best, other), "; ");
  std::vector<std::string> cuts;
  for (int s = 1; s < other.num_stages(); ++s) cuts.push_back(std::to_string(other.stages[as_index(s)].first_layer));
  return describe(other) + (cuts.empty() ? "" : ", cuts " + joined(cuts, ", "));
}

void add_excess(const Candidate& best, const SearchSpace& space, PlanReport& report) {
  const std::vector<std::int64_t> caps = caps_of(best.plan, space);
  for (std::size_t i = 0; i < caps.size(); ++i) {
    const std::int64_t excess = caps[i] > 0 ? best.prediction.peak_bytes[i] - caps[i] : 0;
    if (excess > report.excess_bytes) {
      report.excess_bytes = excess;
      report.excess_device = best.plan.devices[i];
    }
  }
}

PlannedOther other_of(const Candidate& candidate, const std::string& what) {
  return {candidate.prediction.step_s, most_of(candidate.prediction.peak_bytes), what};
}

void add_timeline(const Candidate& best, const CostModel& cost, PlanReport& report) {
  const Simulation simulation = simulate(best.plan, cost);
  report.trace = build_trace_report(simulation.trace, simulation.prediction.peak_bytes, "Predicted: " + report.description);
  add_contents(report.trace, best.plan, cost);
}

bool any_can_offload(const CostModel& cost) {
  for (int device = 0; device < static_cast<int>(cost.profile().devices.size()); ++device)
    if (cost.copies().can_offload(device)) return true;
  return false;
}

bool has_fusing_layer(const Profile& profile) {
  const auto fuses = [](const LayerCost& cost) { return cost.split && cost.split->fused_share > 0; };
  return std::ranges::any_of(profile.classes, [&](const DeviceClass& device_class) {
    return std::ranges::any_of(device_class.layers, [&](const LayerCosts& costs) { return std::ranges::any_of(costs.by_samples, fuses); });
  });
}

}  // namespace

std::vector<PlannedLayer> planned_layers(const Plan& plan, const CostModel& cost) {
  std::vector<PlannedLayer> layers;
  for (int s = 0; s < plan.num_stages(); ++s) {
    const Stage& stage = plan.stages[as_index(s)];
    for (int layer = stage.first_layer; layer < stage.last_layer; ++layer)
      layers.push_back({cost.profile().layers[as_index(layer)].name, s, step_of_layer(plan, stage, layer, cost)});
  }
  return layers;
}

std::string compared_with(const Candidate& best, const Candidate& other) {
  const double share = other.prediction.step_s / best.prediction.step_s - 1;
  return (std::abs(share) < kSameShare ? "as fast" : compared_time(1 + share, 1)) + ": " + what_differs(best.plan, other.plan);
}

PlanReport build_plan_report(const SearchResult& result, const std::vector<Candidate>& front, const CostModel& cost,
                             const SearchSpace& space) {
  const Candidate& best = result.ranked.front();
  PlanReport report;
  report.title = cost.profile().model + ": " + std::to_string(best.plan.global_batch_size()) + " samples";
  report.description = describe(best.plan);
  report.step_s = best.prediction.step_s;
  report.lower_bound_s = result.lower_bound_s;
  report.complete = result.complete;
  report.may_fuse = !space.exact && has_fusing_layer(cost.profile());
  report.may_offload = planner::may_offload(space) && any_can_offload(cost);
  report.schedule_bound_s = std::min(best.prediction.lower_bound_s, lower_bound_of_any_schedule_seconds(best.plan, cost));
  report.extrapolated = best.prediction.extrapolated;
  add_partition(best, cost, report);
  add_excess(best, space, report);
  report.limit = limit_words(best, cost, space);
  add_timeline(best, cost, report);
  for (std::size_t i = 1; i < result.ranked.size(); ++i)
    report.alternatives.push_back(other_of(result.ranked[i], what_differs(best.plan, result.ranked[i].plan)));
  for (const Candidate& candidate : front) {
    const std::string differs = what_differs(best.plan, candidate.plan);
    report.front.push_back(other_of(candidate, differs.empty() ? "the plan above" : differs));
  }
  report.rejected = result.rejected;
  report.classes = result.classes;
  for (const NotExecutable& plan : result.not_executable) {
    if (plan.candidate.plan == best.plan) continue;  // --schedule named it, so it is the plan of this report
    report.not_executable.push_back(other_of(plan.candidate, describe(plan.candidate.plan) + ": " + text_of(plan.missing)));
  }
  return report;
}

}  // namespace mptune::reports
