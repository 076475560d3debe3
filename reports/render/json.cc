#include "reports/render/json.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "profiler/base/index.h"
#include "profiler/base/printable.h"
#include "profiler/trace/analyze/slow_kernels.h"
#include "reports/render/advice_text.h"
#include "reports/render/measured_sizes.h"
#include "reports/render/recommendation_text.h"
#include "reports/render/stall_text.h"
#include "reports/values/plain_pytorch.h"
#include "reports/values/quality_text.h"

namespace mptune::reports {
namespace {

planner::Json idle_seconds(const profiler::IdleCauses& idle) {
  const auto seconds = [](Nanoseconds time) { return std::chrono::duration<double>(time).count(); };
  planner::Json json;
  for (const profiler::NamedCause& cause : profiler::kIdleCauses) json[cause.name] = seconds(idle.*cause.time);
  return json;
}

planner::Json idle_ns(const profiler::IdleCauses& idle) {
  planner::Json json;
  for (const profiler::NamedCause& cause : profiler::kIdleCauses) json[cause.name] = (idle.*cause.time).count();
  return json;
}

planner::Json cost_json(const LayerCost& cost, const DeviceClass& measured) {
  planner::Json json = {{"device_class", measured.name},
                        {"memory_format", name_of(measured.variant.memory_format)},
                        {"replaces_slow_kernels", measured.variant.replaces_slow_kernels},
                        {"threads", measured.variant.threads},
                        {"samples", cost.samples},
                        {"forward_s", median(cost.forward)},
                        {"backward_s", median(cost.backward)}};
  if (!cost.forward_busy.empty() && !cost.backward_busy.empty()) {
    json["forward_busy_s"] = median(cost.forward_busy);
    json["backward_busy_s"] = median(cost.backward_busy);
  }
  if (!cost.backward_input.empty() && !cost.backward_weight.empty()) {
    json["backward_input_s"] = median(cost.backward_input);
    json["backward_weight_s"] = median(cost.backward_weight);
  }
  json["output_bytes"] = cost.output_bytes;
  json["kept_bytes"] = cost.saved_activation_bytes;
  if (cost.split) json["held_bytes"] = cost.split->held_bytes;
  if (cost.split && cost.split->fused_share >= 0) json["fused_share"] = cost.split->fused_share;
  return json;
}

using Layers = std::vector<ProfileLayer>;

planner::Json plan_json(const tuner::RecommendedPlan& plan, const Layers& layers) {
  planner::Json json = {{"plan", planner::plan_object(plan.trial.plan, stage_modules(plan.trial.plan, layers))},
                        {"plan_key", plan.trial.plan_key},
                        {"description", plan.description},
                        {"step_s", plan.step_s},
                        {"step_ci95_s", planner::interval_json(plan.step_ci95_s)}};
  const auto* measured = std::get_if<tuner::Measured>(&plan.trial.outcome);
  json["step_samples"] = measured == nullptr ? 0 : measured->step_s.size();
  json["predicted_step_s"] = plan.predicted_step_s;
  json["peak_bytes"] = plan.peak_bytes;
  json["predicted_peak_bytes"] = plan.trial.prediction ? planner::Json(plan.trial.prediction->peak_bytes) : planner::Json::array();
  json["verdict"] = to_string(plan.verdict);
  json["reasons"] = texts_of(plan.reasons);
  return json;
}

planner::Json baseline_json(const tuner::BaselineResult& baseline) {
  planner::Json json = {
      {"name", baseline.name}, {"plan_key", baseline.trial.plan_key}, {"outcome", tuner::outcome_class(baseline.trial.outcome)}};
  if (const auto* measured = std::get_if<tuner::Measured>(&baseline.trial.outcome)) {
    json["step_s"] = baseline.step_s;
    json["step_ci95_s"] = planner::interval_json(baseline.step_ci95_s);
    json["step_samples"] = measured->step_s.size();
    json["peak_bytes"] = baseline.peak_bytes;
    json["speedup"] = to_json_object(baseline.speedup);
  }
  return json;
}

planner::Json unmeasured_json(const std::vector<tuner::UnmeasuredPlan>& plans, const Layers& layers) {
  planner::Json all = planner::Json::array();
  for (const tuner::UnmeasuredPlan& plan : plans) {
    const tuner::Outcome* failure = tuner::failure_in(plan.why);
    planner::Json json = {{"name", plan.name}, {"plan_key", plan.plan_key}, {"description", plan.description}};
    json["outcome"] = failure == nullptr ? planner::Json(nullptr) : planner::Json(tuner::outcome_class(*failure));
    json["why_not"] = text_of(plan.why);
    json["failed_in_final"] = std::holds_alternative<tuner::FailedInFinal>(plan.why);
    json["own_trial_step_s"] = plan.alone_s ? planner::Json(*plan.alone_s) : planner::Json(nullptr);
    json["predicted_step_s"] = plan.predicted_step_s > 0 ? planner::Json(plan.predicted_step_s) : planner::Json(nullptr);
    json["plan"] = plan.plan ? planner::plan_object(*plan.plan, stage_modules(*plan.plan, layers)) : planner::Json(nullptr);
    all.push_back(std::move(json));
  }
  return all;
}

planner::Json kind_json(const tuner::KindResult& row, const Layers& layers) {
  const auto speedup = [](const std::optional<Speedup>& value) { return value ? to_json_object(*value) : planner::Json(nullptr); };
  planner::Json json = {{"kind", to_string(row.kind)}, {"best", row.best}, {"description", row.description}};
  json["why_not"] = std::holds_alternative<std::monostate>(row.why_not) ? planner::Json(nullptr) : planner::Json(text_of(row.why_not));
  json["plan"] = row.trial ? planner::plan_object(row.trial->plan, stage_modules(row.trial->plan, layers)) : planner::Json(nullptr);
  json["plan_key"] = row.trial ? planner::Json(row.trial->plan_key) : planner::Json(nullptr);
  json["step_s"] = row.trial ? planner::Json(row.step_s) : planner::Json(nullptr);
  json["step_ci95_s"] = planner::interval_json(row.step_ci95_s);
  json["step_samples"] = row.trial ? std::get<tuner::Measured>(row.trial->outcome).step_s.size() : 0;
  json["predicted_step_s"] = row.predicted_step_s > 0 ? planner::Json(row.predicted_step_s) : planner::Json(nullptr);
  json["peak_bytes"] = row.trial ? planner::Json(row.peak_bytes) : planner::Json::array();
  json["over_one_device"] = speedup(row.over_one_device);
  json["over_best"] = speedup(row.over_best);
  return json;
}

planner::Json trial_json(const tuner::Trial& trial) {
  planner::Json json = {{"id", trial.id},
                        {"series", trial.series},
                        {"name", trial.name},
                        {"plan_key", trial.plan_key},
                        {"outcome", tuner::outcome_class(trial.outcome)}};
  const auto* measured = std::get_if<tuner::Measured>(&trial.outcome);
  json["step_s"] = measured != nullptr && !measured->step_s.empty() ? planner::Json(median(measured->step_s)) : planner::Json(nullptr);
  json["why_not"] = measured != nullptr ? planner::Json(nullptr) : planner::Json(tuner::outcome_text(trial.outcome));
  json["predicted_step_s"] = trial.prediction ? planner::Json(trial.prediction->step_s) : planner::Json(nullptr);
  return json;
}

planner::Json curve_json(const std::vector<CurvePoint>& curve) {
  planner::Json points = planner::Json::array();
  for (const CurvePoint& point : curve) {
    points.push_back({{"split_size", point.split_size},
                      {"predicted_s", point.predicted_s > 0 ? planner::Json(point.predicted_s) : planner::Json(nullptr)},
                      {"step_s", point.measured_s ? planner::Json(*point.measured_s) : planner::Json(nullptr)},
                      {"step_ci95_s", planner::interval_json(point.measured_ci95_s)}});
  }
  return points;
}

const char* yardstick_name(LimitShare::Yardstick yardstick) {
  switch (yardstick) {
    case LimitShare::Yardstick::larger_devices:
      return "larger_devices";
    case LimitShare::Yardstick::slow_alone:
      return "slow_alone";
    case LimitShare::Yardstick::fair:
      break;
  }
  return "fair";
}

planner::Json limit_json(const std::optional<LimitShare>& share) {
  if (!share) return nullptr;
  planner::Json rest = planner::Json::array();
  for (const LimitShare::Part& part : share->rest) rest.push_back({{"what", part.what}, {"seconds_s", part.seconds}});
  return {{"limit_s", share->limit_s},
          {"share", share->limit_s / share->step_s},
          {"yardstick", yardstick_name(share->yardstick)},
          {"rest", rest}};
}

}  // namespace

std::string dump(const planner::Json& json) {
  // Only strings can hold what printable() changes, and it spells that as JSON does.
  return printable(json.dump(-1, ' ', false, planner::Json::error_handler_t::replace)) + "\n";
}

planner::Json result_of(const std::string& command) {
  return {{"schema", "mptune." + command + "/1"}};
}

planner::Json error_json(const std::string& what, const std::string& where, const std::string& remedy, int exit_code) {
  return {{"schema", "mptune.error/1"}, {"error", {{"what", what}, {"where", where}, {"remedy", remedy}}}, {"exit_code", exit_code}};
}

void put_step(planner::Json& json, const Samples& step_s) {
  json["step_s"] = median(step_s);
  json["step_ci95_s"] = planner::interval_json(interval95(step_s));
  json["step_samples"] = step_s.size();
}

planner::Json to_json_object(const Prediction& prediction) {
  return {{"step_s", prediction.step_s},
          {"lower_bound_s", prediction.lower_bound_s},
          {"peak_bytes", prediction.peak_bytes},
          {"limiting_stage", prediction.limiting_stage},
          {"extrapolated", prediction.extrapolated}};
}

planner::Json to_json_object(const Speedup& speedup) {
  return {{"estimate", speedup.estimate},
          {"ci95", planner::interval_json(speedup.ci95)},
          {"range", planner::interval_json(speedup.range)},
          {"pairs", speedup.pairs},
          {"verdict", to_string(speedup.verdict)},
          {"error_rate", speedup.error_rate ? planner::Json(*speedup.error_rate) : planner::Json(nullptr)}};
}

planner::Json to_json_object(const TraceQuality& quality) {
  return {{"dropped", quality.dropped},           {"untagged", quality.untagged},        {"out_of_window", quality.out_of_window},
          {"zero_stamped", quality.zero_stamped}, {"unmatched", quality.unmatched},      {"cut_off", quality.cut_off},
          {"ambiguous", quality.ambiguous},       {"unmatched_ns", quality.unmatched_ns}};
}

planner::Json devices_json(const TraceReport& report) {
  planner::Json devices = planner::Json::array();
  for (const DeviceRow& row : report.devices) {
    devices.push_back({{"device", row.device},
                       {"window_s", row.window_s},
                       {"compute_s", row.compute_s},
                       {"copy_s", row.copy_s},
                       {"overlap_s", row.overlap_s},
                       {"idle_s", row.idle_s},
                       {"idle", idle_seconds(row.idle)},
                       {"peak_bytes", row.peak_bytes}});
  }
  return devices;
}

planner::Json steps_json(const profiler::Breakdown& breakdown) {
  planner::Json steps = planner::Json::array();
  for (const profiler::StepBreakdown& step : breakdown.steps) {
    planner::Json devices = planner::Json::array();
    for (const profiler::DeviceBreakdown& device : step.devices) {
      devices.push_back({{"window_ns", device.window.count()},
                         {"compute_ns", device.compute.count()},
                         {"copy_ns", device.copy.count()},
                         {"overlap_ns", device.overlap.count()},
                         {"idle_ns", device.idle.count()},
                         {"idle", idle_ns(device.causes)}});
    }
    steps.push_back({{"step", step.step}, {"devices", devices}});
  }
  return steps;
}

namespace {

planner::Json to_json_object(const MemoryRow& row) {
  planner::Json json = {{"device", row.device},
                        {"peak_bytes", row.peak_bytes},
                        {"cap_bytes", row.cap_bytes > 0 ? planner::Json(row.cap_bytes) : planner::Json(nullptr)},
                        {"samples", planner::Json::array()},
                        {"contents", nullptr}};
  for (const MemoryRow::Sample& sample : row.samples) json["samples"].push_back({{"time_s", sample.time_s}, {"bytes", sample.bytes}});
  if (row.contents) {
    const planner::PeakContents& all = *row.contents;
    planner::Json activations = planner::Json::array();
    for (const auto& [microbatch, bytes] : all.activations_bytes) activations.push_back({{"microbatch", microbatch}, {"bytes", bytes}});
    json["contents"] = {{"parameters_bytes", all.parameters_bytes},
                        {"gradients_bytes", all.gradients_bytes},
                        {"optimizer_bytes", all.optimizer_bytes},
                        {"buffers_bytes", all.buffers_bytes},
                        {"activations", activations},
                        {"slots_bytes", all.communication_buffer_bytes},
                        {"workspace_bytes", all.workspace_bytes},
                        {"library_bytes", all.library_bytes},
                        {"reserve_bytes", all.reserve_bytes}};
  }
  return json;
}

/// Returns what the trials taught the simulator; null for too few trials.
planner::Json refit_json(const std::optional<tuner::Refit>& refit) {
  if (!refit) return nullptr;
  return {{"trials", refit->trials},           {"error_before", refit->error_before}, {"error_after", refit->error_after},
          {"compute", refit->factors.compute}, {"action", refit->factors.action},     {"copy", refit->factors.copy}};
}

}  // namespace

planner::Json memory_json(const std::vector<MemoryRow>& memory) {
  planner::Json json = planner::Json::array();
  for (const MemoryRow& row : memory) json.push_back(to_json_object(row));
  return json;
}

planner::Json advice_json(const std::vector<planner::Advice>& advice) {
  planner::Json list = planner::Json::array();
  for (const planner::Advice& one : advice) {
    list.push_back({{"cause", to_string(one.cause)},
                    {"device", one.device},
                    {"stage", one.stage},
                    {"saves_s", one.saves_s},
                    {"saves_percent", one.saves_percent},
                    {"text", text_of(one)}});
  }
  return list;
}

planner::Json stalls_json(const std::vector<StallRow>& stalls) {
  planner::Json list = planner::Json::array();
  for (const StallRow& one : stalls) {
    list.push_back({{"device", one.device},
                    {"step", one.step},
                    {"stage", one.stage},
                    {"microbatch", one.microbatch},
                    {"what", to_string(one.kind)},
                    {"late", one.late},
                    {"time_s", one.time_s},
                    {"usual_s", one.usual_s},
                    {"price_s", one.price_s},
                    {"price_percent", one.price_percent},
                    {"hidden", one.hidden},
                    {"text", text_of(one)}});
  }
  return list;
}

void put_trace(planner::Json& json, const TraceReport& report) {
  json["devices"] = devices_json(report);
  json["steps"] = steps_json(report.breakdown);
  json["bubble"] = report.bubble;
  if (report.bubble_theory) json["bubble_theory"] = *report.bubble_theory;
  json["quality"] = to_json_object(report.quality);
  if (report.whole_graphs > 0) json["whole_graphs"] = {{"count", report.whole_graphs}, {"compute_share", report.whole_graphs_share}};
  if (report.lone_collectives > 0)
    json["lone_collectives"] = {{"count", report.lone_collectives}, {"step_share", report.lone_collectives_share}};
  json["implausible_times"] = planner::Json::array();
  for (const ImplausibleTime& record : report.implausible)
    json["implausible_times"].push_back(
        {{"fault", fault_name(record.fault)}, {"what", record.what}, {"where", record.where}, {"times", record.times}});
  json["advice"] = advice_json(report.advice);
  json["stalls"] = stalls_json(report.stalls);
  json["critical_path"] = planner::Json::array();
  for (const PathRow& row : report.critical_path)
    json["critical_path"].push_back({{"what", row.what}, {"time_s", row.time_s}, {"share", row.share}});
  json["link_use"] = planner::Json::array();
  for (const LinkRow& row : report.links) {
    json["link_use"].push_back({{"source", row.source},
                                {"destination", row.destination},
                                {"copies", row.copies},
                                {"bytes", row.bytes},
                                {"time_s", row.time_s},
                                {"exposed_s", row.exposed_s},
                                {"bytes_per_second", row.time_s > 0 ? static_cast<double>(row.bytes) / row.time_s : 0}});
  }
  json["memory"] = memory_json(report.memory);
  json["clock_error_s"] = report.clock_error_s;
}

planner::Json layers_json(const Profile& profile) {
  planner::Json layers = planner::Json::array();
  // A class with slow kernels replaced has costs of its own only where it replaces some.
  std::set<std::tuple<std::size_t, std::size_t, int>> replaced;
  for (const profiler::SlowKernel& kernel : profiler::slow_kernels(profile))
    replaced.insert({as_index(kernel.device_class), as_index(kernel.layer), kernel.samples});
  for (std::size_t i = 0; i < profile.layers.size(); ++i) {
    planner::Json costs = planner::Json::array();
    for (std::size_t c = 0; c < profile.classes.size(); ++c) {
      const DeviceClass& measured = profile.classes[c];
      if (i >= measured.layers.size()) continue;
      for (const LayerCost& cost : measured.layers[i].by_samples)
        if (!measured.variant.replaces_slow_kernels || replaced.count({c, i, cost.samples}) > 0) costs.push_back(cost_json(cost, measured));
    }
    const ProfileLayer& layer = profile.layers[i];
    layers.push_back({{"index", i},
                      {"name", layer.name},
                      {"parameters_bytes", layer.parameters_bytes},
                      {"unsplit_share", layer.unsplit_share},
                      {"costs", costs}});
  }
  return layers;
}

planner::Json links_json(const Profile& profile) {
  planner::Json links = planner::Json::array();
  for (const LinkCost& link : profile.links) {
    links.push_back({{"source", profile.devices.at(as_index(link.source)).name},
                     {"destination", profile.devices.at(as_index(link.destination)).name},
                     {"latency_s", link.latency_s},
                     {"bytes_per_second", link.bytes_per_second}});
  }
  for (const ProfileDevice& device : profile.devices) {
    const auto add = [&](const HostCopies& copies, const std::string& source, const std::string& destination) {
      if (copies.bytes_per_second <= 0 || copies.device_copies) return;
      links.push_back({{"source", source},
                       {"destination", destination},
                       {"latency_s", copies.latency_s},
                       {"bytes_per_second", copies.bytes_per_second}});
    };
    add(device.to_host, device.name, "host memory");
    add(device.from_host, "host memory", device.name);
  }
  return links;
}

planner::Json study_json(const StudyReport& report, const Layers& layers) {
  const tuner::Recommendation& all = report.recommendation;
  planner::Json json = {{"study", report.study}, {"plan_file", report.plan_file}, {"recommended", plan_json(all.recommended, layers)}};
  json["best_pipeline"] = all.best_pipeline ? plan_json(*all.best_pipeline, layers) : planner::Json(nullptr);
  json["best_half_memory"] = all.best_half_memory ? plan_json(*all.best_half_memory, layers) : planner::Json(nullptr);
  json["baselines"] = planner::Json::array();
  for (const tuner::BaselineResult& baseline : all.baselines) json["baselines"].push_back(baseline_json(baseline));
  json["baselines_not_measured"] = unmeasured_json(all.unmeasured.baselines, layers);
  json["failed_plans"] = unmeasured_json(all.unmeasured.candidates, layers);
  json["kinds"] = planner::Json::array();
  for (const tuner::KindResult& row : all.kinds.rows) json["kinds"].push_back(kind_json(row, layers));
  json["kinds_advice"] = texts_of(all.kinds.advice);
  json["trials"] = planner::Json::array();
  for (const tuner::Trial& trial : report.trials) json["trials"].push_back(trial_json(trial));
  json["curve"] = curve_json(report.curve);
  json["limit"] = limit_json(report.limit);
  json["pipeline_limit"] = limit_json(report.pipeline_limit);
  json["co_running_slowdown"] = report.co_running_slowdown;
  json["traces"] = report.trace_files;
  json["report"] = report.report_file.empty() ? planner::Json(nullptr) : planner::Json(report.report_file);
  json["plain_pytorch"] = plain_pytorch(all.recommended.trial.plan);
  json["messages"] = texts_of(all.advice);
  json["warnings"] = texts_of(all.warnings);
  json["advice"] = report.trace ? advice_json(report.trace->advice) : planner::Json::array();
  json["memory"] = report.trace ? memory_json(report.trace->memory) : planner::Json::array();
  json["decided"] = all.decided;
  json["stop_reason"] = report.stop_reason;
  json["refit"] = refit_json(report.refit);
  json["measured_sizes"] = measured_sizes_json(report.measured_sizes);
  json["lower_bound_s"] = report.lower_bound_s;
  json["gap"] = report.lower_bound_s > 0 ? planner::Json(report.gap) : planner::Json(nullptr);
  json["elapsed_s"] = report.elapsed_s;
  return json;
}

}  // namespace mptune::reports
