#include "mptune/reports/cli/study_report.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "mptune/profiler/base/error.h"
#include "mptune/profiler/store/store.h"
#include "mptune/reports/render/json.h"
#include "mptune/tuner/finalists.h"

namespace mptune {
namespace {

constexpr const char* kSummary = "summary";

Error incomplete(const Study& study) {
  return {"this study has no result yet", study.folder(), "go on with mptune tune --resume", ExitCode::no_result};
}

/// Single-device step of the same series as the recommendation, 0: not measured.
double single_device_step(const Recommendation& recommendation) {
  const auto found = std::ranges::find(recommendation.baselines, "single_device", &BaselineResult::name);
  return found == recommendation.baselines.end() ? 0 : found->step_s;
}

Json kind_facts_json(const KindFacts& facts) {
  Json json = {{"on_paper", Json::object()}, {"no_plan", Json::object()}, {"other_devices", Json::array()}};
  for (const auto& [kind, why] : facts.no_plan) {
    json["no_plan"][to_string(kind)] = why;
  }
  for (const auto& [kind, paper] : facts.on_paper) {
    json["on_paper"][to_string(kind)] = {{"description", paper.description}, {"step_s", paper.step_s}, {"peak_bytes", paper.peak_bytes}};
  }
  for (const OtherDevices& other : facts.other_devices) {
    json["other_devices"].push_back({{"devices", other.devices}, {"kind", to_string(other.kind)}, {"step_s", other.step_s}});
  }
  return json;
}

Parallelism kind_from(const std::string& name) {
  if (const auto kind = parallelism_named(name)) {
    return *kind;
  }
  throw Error("'" + name + "' is no kind of parallelism", "the study", "tune again with --fresh");
}

/// Studies of before have none.
KindFacts kind_facts_from(const Json& json, const std::vector<std::string>& whole_machine) {
  KindFacts facts;
  facts.whole_machine = whole_machine;
  const Json no_plan = json.value("no_plan", Json::object());
  for (const auto& [kind, why] : no_plan.items()) {
    facts.no_plan[kind_from(kind)] = why.get<std::string>();
  }
  const Json on_paper = json.value("on_paper", Json::object());
  for (const auto& [kind, paper] : on_paper.items()) {
    facts.on_paper[kind_from(kind)] = {paper.at("description").get<std::string>(), paper.at("step_s").get<double>(),
                                       paper.at("peak_bytes").get<std::vector<std::int64_t>>()};
  }
  for (const Json& other : json.value("other_devices", Json::array())) {
    facts.other_devices.push_back(
        {other.at("devices").get<int>(), kind_from(other.at("kind").get<std::string>()), other.at("step_s").get<double>()});
  }
  return facts;
}

struct StoredTrace {
  std::optional<TraceReport> report;
  std::string file;
};

StoredTrace stored_trace(const Study& study, const std::string& name, const RecommendedPlan& plan, const Profile& profile,
                         const std::string& title) {
  StoredTrace stored;
  const std::string path = study.trace_path(name);
  if (!std::filesystem::exists(path)) {
    return stored;
  }
  if (const auto trace = read_recording(path).trace) {
    stored.report = build_trace_report(*trace, plan.peak_bytes, title);
    add_plan(*stored.report, plan.trial.plan, &profile);
    stored.file = path;
  }
  return stored;
}

std::optional<LimitShare> share_of(const RecommendedPlan& plan, const Recommendation& all, std::size_t devices, const Profile& profile,
                                   const std::optional<TraceReport>& trace) {
  const double single = single_device_step(all);
  if (single <= 0 || devices < 2) {
    return std::nullopt;
  }
  return limit_share(plan.step_s, single, static_cast<int>(devices), profile.co_running_slowdown, trace);
}

}  // namespace

void save_summary(Study& study, const StudySummary& summary) {
  const Json json = {{"devices", summary.devices},
                     {"whole_machine", summary.whole_machine},
                     {"batch", summary.batch},
                     {"lower_bound_s", summary.lower_bound_s},
                     {"gap", summary.gap},
                     {"elapsed_s", summary.elapsed_s},
                     {"stop_reason", summary.stop_reason},
                     {"run_command", summary.run_command},
                     {"kinds", kind_facts_json(summary.kinds)}};
  study.set_value(kSummary, json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

StudySummary load_summary(const Study& study) {
  const Json json = Json::parse(study.value(kSummary), nullptr, false);
  if (!json.is_object()) {
    throw incomplete(study);
  }
  try {
    StudySummary summary;
    json.at("devices").get_to(summary.devices);
    json.at("whole_machine").get_to(summary.whole_machine);
    json.at("batch").get_to(summary.batch);
    json.at("lower_bound_s").get_to(summary.lower_bound_s);
    json.at("gap").get_to(summary.gap);
    json.at("elapsed_s").get_to(summary.elapsed_s);
    json.at("stop_reason").get_to(summary.stop_reason);
    json.at("run_command").get_to(summary.run_command);
    summary.kinds = kind_facts_from(json.value("kinds", Json::object()), summary.whole_machine);
    return summary;
  } catch (const Json::exception&) {
    throw Error("the summary of this study is damaged", study.folder(), "run mptune tune --resume to write it again");
  }
}

Profile profile_of(const Study& study) {
  auto profile = read_recording(study.profile_path()).profile;
  if (!profile) {
    throw Error("the study has no profile", study.profile_path(), "go on with mptune tune --resume");
  }
  return std::move(*profile);
}

Recommendation recommendation_of(const Study& study, const StudySummary& summary, const Profile& profile) {
  SearchSpace space;
  space.devices = summary.devices;
  space.whole_machine = summary.whole_machine;
  space.batch = summary.batch;
  std::vector<Trial> finals;
  std::int64_t single_device_peak = 0;
  const std::string series = study.value("final_series");
  const std::vector<Trial> trials = study.trials();
  for (const Trial& trial : trials) {
    if (std::to_string(trial.series) == series) {
      finals.push_back(trial);
    }
    if (trial.name == "single_device" && single_device_peak == 0) {
      single_device_peak = largest_peak(trial);
    }
  }
  finals = with_every_name(std::move(finals), baseline_plans(space, static_cast<int>(profile.layers.size())));
  auto found = recommend(finals, single_device_peak, study.value("not_raced"));
  if (!found) {
    throw incomplete(study);
  }
  found->kinds = compare_kinds(found->recommended, finals, trials, summary.kinds);
  return std::move(*found);
}

StudyReport report_of_study(const Study& study, const StudySummary& summary, const Recommendation& recommendation, const Profile& profile) {
  StudyReport report = build_study_report(recommendation, study.trials(), profile);
  report.study = study.folder();
  report.modules = stage_modules(recommendation.recommended.trial.plan, layer_modules(profile.layers));
  report.plan_file = study.plan_path();
  report.lower_bound_s = summary.lower_bound_s;
  report.gap = summary.gap;
  report.elapsed_s = summary.elapsed_s;
  report.stop_reason = summary.stop_reason;
  report.run_command = summary.run_command;
  const RecommendedPlan& best = recommendation.recommended;
  StoredTrace trace = stored_trace(study, "recommended", best, profile, "Recommended plan");
  report.trace = std::move(trace.report);
  report.limit = share_of(best, recommendation, summary.devices.size(), profile, report.trace);
  if (!trace.file.empty()) {
    report.trace_files.push_back(trace.file);
  }
  if (recommendation.best_pipeline && recommendation.best_pipeline->trial.plan_key != best.trial.plan_key) {
    StoredTrace pipeline = stored_trace(study, "best_pipeline", *recommendation.best_pipeline, profile, "Best pipeline");
    report.pipeline_trace = std::move(pipeline.report);
    report.pipeline_limit = share_of(*recommendation.best_pipeline, recommendation, summary.devices.size(), profile, report.pipeline_trace);
    if (!pipeline.file.empty()) {
      report.trace_files.push_back(pipeline.file);
    }
  }
  if (const std::string naive = study.trace_path("naive_model_parallel"); std::filesystem::exists(naive)) {
    report.trace_files.push_back(naive);
  }
  return report;
}

}  // namespace mptune
