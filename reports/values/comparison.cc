#include "reports/values/comparison.h"

#include <algorithm>
#include <cmath>

#include "profiler/base/error.h"
#include "reports/values/plan_changes.h"
#include "reports/values/quality_text.h"

namespace mptune::reports {
namespace {

bool is_time(const std::optional<MedianEstimate>& step) {
  return step && step->median > 0 && (!step->ci95 || step->ci95->low > 0);
}

std::vector<double> medians_of(const ComparedSide& side) {
  std::vector<double> medians;
  for (const MedianEstimate& recording : side.recordings) medians.push_back(recording.median);
  return medians;
}

TimeRatio ratio_of(const ComparedSide& a, const ComparedSide& b, bool of_recordings, double band) {
  return of_recordings ? ratio_of_recordings(medians_of(a), medians_of(b), band) : unpaired_ratio(*a.step_s, *b.step_s, band);
}

/// Sets ratio and verdict of the steps of both sides.
void judge_steps(Comparison& comparison, double band) {
  for (const ComparedSide* side : {&comparison.a, &comparison.b}) {
    if (!is_time(side->step_s)) {
      comparison.reason = std::string(side == &comparison.a ? "A" : "B") + " has no step time";
      return;
    }
  }
  comparison.drift_covered = comparison.a.recordings.size() + comparison.b.recordings.size() > 2;
  const TimeRatio ratio = ratio_of(comparison.a, comparison.b, comparison.drift_covered, band);
  comparison.ratio = ratio.estimate;
  comparison.ratio_ci95 = ratio.ci95;
  comparison.verdict = ratio.verdict;
  comparison.reason = ratio.reason;
}

void withdraw_verdict(Comparison& comparison, const std::string& reason) {
  comparison.verdict = Verdict::unknown;
  comparison.reason = reason;
}

/// Calls the sides the same, because both are the same data: the ratio is exactly 1.
void call_same(Comparison& comparison, const std::string& reason) {
  if (comparison.ratio) comparison.ratio_ci95 = Interval{1, 1};
  comparison.drift_covered = true;
  comparison.verdict = Verdict::same;
  comparison.reason = reason;
}

/// Compares the work besides times. Steps of other models, inputs or batches are different work: the verdict becomes unknown.
void compare_work(Comparison& comparison, const ComparedWork& a, const ComparedWork& b) {
  comparison.a.batch = a.batch;
  comparison.b.batch = b.batch;
  comparison.unlike = unlike_things(a, b);
  for (const Unlike& thing : comparison.unlike) {
    const std::string both = thing.a + " and of " + thing.b;
    if (thing.what == Unlike::What::model) return withdraw_verdict(comparison, "steps of " + both + " are different work");
    if (thing.what == Unlike::What::input) return withdraw_verdict(comparison, "steps on inputs of " + both + " are different work");
    if (thing.what == Unlike::What::batch) return withdraw_verdict(comparison, "steps of " + both + " samples are different work");
  }
}

/// Compares the devices of traces that can be trusted.
void compare_devices(Comparison& comparison, std::span<const TraceReport> a, std::span<const TraceReport> b) {
  comparison.devices = device_changes(a, b);
  comparison.all_devices = summed_change(a, b);
  comparison.largest = largest_changes(comparison.devices);
}

/// Names the cause of the difference. Requires: the verdict is final.
void name_cause(Comparison& comparison) {
  if (comparison.verdict == Verdict::slow || comparison.verdict == Verdict::fast) comparison.cause = main_cause(comparison.devices);
}

std::optional<MedianEstimate> estimate_of(const Samples& samples) {
  return samples.empty() ? std::nullopt : std::optional(estimate(samples));
}

/// Joins the estimates of several recordings; nullopt where a recording has no step, or one without length.
std::optional<MedianEstimate> joint_estimate(const std::vector<MedianEstimate>& recordings) {
  double logarithms = 0;
  MedianEstimate joint;
  for (const MedianEstimate& recording : recordings) {
    if (!is_time(recording)) return std::nullopt;
    logarithms += std::log(recording.median) / static_cast<double>(recordings.size());
    joint.samples += recording.samples;
  }
  joint.median = std::exp(logarithms);
  return joint;
}

ComparedSide side_of(const std::vector<ComparedTrace>& traces) {
  ComparedSide side;
  for (const ComparedTrace& trace : traces) {
    side.names.push_back(trace.name);
    side.recordings.push_back(estimate_of(trace.report.steps_s).value_or(MedianEstimate{}));
  }
  side.step_s = traces.size() > 1 ? joint_estimate(side.recordings) : estimate_of(traces.front().report.steps_s);
  return side;
}

std::vector<TraceReport> reports_of(const std::vector<ComparedTrace>& traces) {
  std::vector<TraceReport> reports;
  for (const ComparedTrace& trace : traces) reports.push_back(trace.report);
  return reports;
}

bool same_devices(const TraceReport& a, const TraceReport& b) {
  return std::ranges::equal(a.devices, b.devices, {}, &DeviceRow::device, &DeviceRow::device);
}

bool same_recording(const TraceReport& a, const TraceReport& b) {
  return a.steps_s == b.steps_s && a.breakdown == b.breakdown && same_devices(a, b);
}

/// Returns what two recordings of one side differ in, except the machine, which may be another one in name only; nullptr for nothing.
const char* difference_of(const ComparedTrace& a, const ComparedTrace& b) {
  if (!same_devices(a.report, b.report)) return "devices";
  if (a.plan && b.plan && a.plan != b.plan) return "plans";
  for (const Unlike& thing : unlike_things(a.work, b.work))
    if (!is_of_machine(thing.what)) return name_of(thing.what);
  return nullptr;
}

void require_alike(const std::vector<ComparedTrace>& side) {
  for (const ComparedTrace& trace : side) {
    if (const char* difference = difference_of(side.front(), trace)) {
      throw Error(std::string("recordings of one side differ: ") + difference, side.front().name + " and " + trace.name,
                  "give recordings of the same program and plan on the same devices");
    }
  }
}

/// Throws Error if two recordings of one side are the same file, or one a copy of the other.
void require_distinct(const std::vector<ComparedTrace>& side) {
  for (std::size_t i = 0; i < side.size(); ++i) {
    for (std::size_t j = i + 1; j < side.size(); ++j) {
      if (same_recording(side[i].report, side[j].report) && !side[i].report.steps_s.empty())
        throw Error("two recordings of one side are the same", side[i].name + " and " + side[j].name, "give each recording once");
    }
  }
}

const profiler::QualityObjection* objection_in(const std::vector<ComparedTrace>& side) {
  for (const ComparedTrace& trace : side)
    if (trace.report.objection) return &*trace.report.objection;
  return nullptr;
}

ComparedSide side_of_plan(const PlanFile& file) {
  ComparedSide side;
  if (file.measured) {
    side.step_s =
        MedianEstimate{.median = file.measured->step_s, .ci95 = file.measured->step_ci95_s, .samples = file.measured->step_samples};
  } else if (file.predicted) {
    side.step_s = MedianEstimate{.median = file.predicted->step_s};
    side.predicted = true;
  }
  return side;
}

/// If a plan was not measured, compares predictions, provided that both plans have one.
void fall_back_to_predictions(Comparison& comparison, const PlanFile& a, const PlanFile& b) {
  if (a.measured && b.measured) return;
  PlanFile compared_a = a, compared_b = b;
  if (a.predicted && b.predicted) {
    compared_a.measured.reset();
    compared_b.measured.reset();
  }
  comparison.a = side_of_plan(compared_a);
  comparison.b = side_of_plan(compared_b);
}

std::string unmeasured(const PlanFile& a, const PlanFile& b) {
  const std::string who = !a.measured && !b.measured ? "neither plan was" : !a.measured ? "A was never" : "B was never";
  const bool predicted = (a.measured || a.predicted) && (b.measured || b.predicted);
  return who + " measured" + (predicted ? ": the times are predictions" : "");
}

std::vector<TraceDevice> devices_named(const std::vector<std::string>& names) {
  std::vector<TraceDevice> devices(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) devices[i].name = names[i];
  return devices;
}

ComparedWork work_of(const PlanFile& file) {
  ComparedWork work;
  work.fingerprint = file.fingerprint;
  work.batch = file.plan.global_batch_size();
  work.devices = devices_named(file.plan.devices);
  return work;
}

ComparedWork work_of(const StudyReport& study) {
  ComparedWork work;
  work.model = study.model;
  work.fingerprint = study.fingerprint;
  work.batch = study.recommendation.recommended.trial.plan.global_batch_size();
  work.devices = devices_named(study.fingerprint.devices);
  work.machine = study.machine;
  return work;
}

}  // namespace

Comparison compare_traces(const std::vector<ComparedTrace>& a, const std::vector<ComparedTrace>& b, double band) {
  for (const auto* side : {&a, &b}) {
    require_alike(*side);
    require_distinct(*side);
  }
  Comparison comparison;
  comparison.kind = "traces";
  comparison.a = side_of(a);
  comparison.b = side_of(b);
  judge_steps(comparison, band);
  const bool one_each = a.size() == 1 && b.size() == 1;
  if (one_each && same_recording(a.front().report, b.front().report) && !a.front().report.steps_s.empty())
    call_same(comparison, "both are the same recording");
  compare_work(comparison, a.front().work, b.front().work);
  if (const auto* in_a = objection_in(a))
    withdraw_verdict(comparison, "A: " + text_of(*in_a));
  else if (const auto* in_b = objection_in(b))
    withdraw_verdict(comparison, "B: " + text_of(*in_b));
  compare_devices(comparison, reports_of(a), reports_of(b));
  if (a.front().plan && b.front().plan) comparison.plan_changes = plan_changes(*a.front().plan, *b.front().plan);
  name_cause(comparison);
  return comparison;
}

Comparison compare_plan_files(const PlanFile& a, const PlanFile& b, double band) {
  Comparison comparison;
  comparison.kind = "plans";
  comparison.a = side_of_plan(a);
  comparison.b = side_of_plan(b);
  fall_back_to_predictions(comparison, a, b);
  judge_steps(comparison, band);
  if (!a.measured || !b.measured) withdraw_verdict(comparison, unmeasured(a, b));
  if (to_json(a) == to_json(b)) call_same(comparison, "both files say the same");
  compare_work(comparison, work_of(a), work_of(b));
  // A plan file does not name its model: only the content tells two models apart.
  if (std::ranges::find(comparison.unlike, Unlike::What::model_content, &Unlike::what) != comparison.unlike.end())
    withdraw_verdict(comparison, "steps of two models are different work");
  comparison.plan_changes = plan_changes(a.plan, b.plan);
  return comparison;
}

Comparison compare_studies(const StudyReport& a, const StudyReport& b, double band) {
  Comparison comparison;
  comparison.kind = "studies";
  const tuner::Trial& in_a = a.recommendation.recommended.trial;
  const tuner::Trial& in_b = b.recommendation.recommended.trial;
  const Samples steps_a = std::get<tuner::Measured>(in_a.outcome).step_s, steps_b = std::get<tuner::Measured>(in_b.outcome).step_s;
  comparison.a.step_s = estimate_of(steps_a);
  comparison.b.step_s = estimate_of(steps_b);
  comparison.a.unmeasured = a.recommendation.unmeasured;
  comparison.b.unmeasured = b.recommendation.unmeasured;
  judge_steps(comparison, band);
  if (steps_a == steps_b && in_a.plan == in_b.plan) call_same(comparison, "both recommend the same plan by the same samples");
  compare_work(comparison, work_of(a), work_of(b));
  if (a.trace && b.trace && !a.trace->objection && !b.trace->objection) compare_devices(comparison, {&*a.trace, 1}, {&*b.trace, 1});
  comparison.plan_changes = plan_changes(in_a.plan, in_b.plan);
  name_cause(comparison);
  return comparison;
}

std::optional<double> samples_per_second(const ComparedSide& side) {
  if (!is_time(side.step_s) || side.batch <= 0) return std::nullopt;
  return side.batch / side.step_s->median;
}

}  // namespace mptune::reports
