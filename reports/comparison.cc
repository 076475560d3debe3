#include "reports/comparison.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "profiler/base/index.h"
#include "reports/plan_changes.h"
#include "reports/quality_text.h"

namespace mptune::reports {
namespace {

constexpr std::size_t kLeastSteps = 6;
constexpr std::size_t kMostChanges = 5;
constexpr double kLeastChange = 0.0005;

struct DevicePart {
  const char* name;
  std::function<Nanoseconds(const profiler::DeviceBreakdown&)> time;
};
const std::vector<DevicePart>& device_parts() {
  static const std::vector<DevicePart> kParts = {{"window", &profiler::DeviceBreakdown::window},
                                                 {"compute", &profiler::DeviceBreakdown::compute},
                                                 {"copy", &profiler::DeviceBreakdown::copy},
                                                 {"overlap", &profiler::DeviceBreakdown::overlap},
                                                 {"idle", &profiler::DeviceBreakdown::idle}};
  return kParts;
}

double in_seconds(Nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

/// A device of one trace; index < 0: the trace has none.
struct TraceDevice {
  const TraceReport* report;
  int index;
  [[nodiscard]] std::string name() const { return index < 0 ? "" : report->devices[as_index(index)].device; }
  [[nodiscard]] profiler::DeviceBreakdown mean() const {
    return index < 0 ? profiler::DeviceBreakdown{} : profiler::mean_over_steps(report->breakdown, index);
  }
  [[nodiscard]] std::vector<double> per_step(const DevicePart& part) const {
    std::vector<double> values;
    for (const profiler::StepBreakdown& step : report->breakdown.steps)
      values.push_back(in_seconds(part.time(step.devices.at(as_index(index)))));
    return values;
  }
};

PartChange part_change(const DevicePart& part, const TraceDevice& a, const TraceDevice& b) {
  PartChange change{.part = part.name, .a_s = in_seconds(part.time(a.mean())), .b_s = in_seconds(part.time(b.mean())), .ci95_s = {}};
  const std::size_t fewest = std::min(a.report->breakdown.steps.size(), b.report->breakdown.steps.size());
  if (a.index >= 0 && b.index >= 0 && fewest >= kLeastSteps) change.ci95_s = mean_difference95(a.per_step(part), b.per_step(part));
  return change;
}

DeviceChange device_change(const TraceDevice& a, const TraceDevice& b) {
  DeviceChange change{.a = a.name(), .b = b.name(), .parts = {}, .idle = {}};
  for (const DevicePart& part : device_parts()) change.parts.push_back(part_change(part, a, b));
  for (const profiler::NamedCause& cause : profiler::kIdleCauses) {
    const auto time = [&cause](const profiler::DeviceBreakdown& device) { return device.causes.*cause.time; };
    change.idle.push_back(part_change({cause.name, time}, a, b));
  }
  return change;
}

/// Index in `b` of the device that stands for each one of `a`, -1: none. Matches names first; the rest by order if the counts are equal.
std::vector<int> partners(const std::vector<DeviceRow>& a, const std::vector<DeviceRow>& b) {
  std::vector<int> partner(a.size(), -1);
  std::vector<bool> taken(b.size(), false);
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < b.size() && partner[i] < 0; ++j) {
      if (!taken[j] && a[i].device == b[j].device) {
        partner[i] = static_cast<int>(j);
        taken[j] = true;
      }
    }
  }
  for (std::size_t i = 0; i < a.size() && a.size() == b.size(); ++i) {
    if (partner[i] < 0) {
      const auto free = std::ranges::find(taken, false);
      partner[i] = static_cast<int>(free - taken.begin());
      *free = true;
    }
  }
  return partner;
}

std::vector<DeviceChange> device_changes(const TraceReport& a, const TraceReport& b) {
  std::vector<DeviceChange> changes;
  const std::vector<int> partner = partners(a.devices, b.devices);
  for (std::size_t i = 0; i < a.devices.size(); ++i) changes.push_back(device_change({&a, static_cast<int>(i)}, {&b, partner[i]}));
  for (int j = 0; j < static_cast<int>(b.devices.size()); ++j)
    if (std::ranges::find(partner, j) == partner.end()) changes.push_back(device_change({&a, -1}, {&b, j}));
  return changes;
}

bool is_change(const PartChange& part, double share) {
  if (part.part == "window" || part.part == "idle" || std::abs(share) < kLeastChange) return false;
  return !part.ci95_s || part.ci95_s->low > 0 || part.ci95_s->high < 0;
}

std::vector<LargestChange> largest_changes(const std::vector<DeviceChange>& devices) {
  std::vector<LargestChange> changes;
  for (const DeviceChange& device : devices) {
    if (!device.in_both()) continue;
    for (const auto* parts : {&device.parts, &device.idle}) {
      for (const PartChange& part : *parts)
        if (is_change(part, device.share(part))) changes.push_back({device.name(), part, device.share(part)});
    }
  }
  std::ranges::stable_sort(changes, std::ranges::greater{}, [](const LargestChange& c) { return std::abs(c.part.difference_s()); });
  changes.resize(std::min(changes.size(), kMostChanges));
  return changes;
}

void add_traces(Comparison& comparison, const TraceReport& a, const TraceReport& b) {
  comparison.devices = device_changes(a, b);
  comparison.largest = largest_changes(comparison.devices);
}

bool is_time(const std::optional<MedianEstimate>& step) {
  return step && step->ci95.low > 0;
}

/// Ratio and verdict of the steps of both sides.
void judge_steps(Comparison& comparison) {
  for (const ComparedSide* side : {&comparison.a, &comparison.b}) {
    if (!is_time(side->step_s)) {
      comparison.reason = std::string(side == &comparison.a ? "A" : "B") + " has no step time";
      return;
    }
  }
  const TimeRatio ratio = unpaired_ratio(*comparison.a.step_s, *comparison.b.step_s);
  comparison.ratio = ratio.estimate;
  if (std::min(comparison.a.step_s->samples, comparison.b.step_s->samples) > 1) comparison.ratio_ci95 = ratio.ci95;
  comparison.verdict = ratio.verdict;
  comparison.reason = ratio.reason;
}

void withdraw_verdict(Comparison& comparison, const std::string& reason) {
  comparison.verdict = Verdict::unknown;
  comparison.reason = reason;
}

/// Both sides are the same data: the ratio is exactly 1.
void call_same(Comparison& comparison, const std::string& reason) {
  if (comparison.ratio) comparison.ratio_ci95 = Interval{1, 1};
  comparison.verdict = Verdict::same;
  comparison.reason = reason;
}

std::optional<MedianEstimate> estimate_of(const Samples& samples) {
  return samples.empty() ? std::nullopt : std::optional(estimate(samples));
}

bool same_recording(const TraceReport& a, const TraceReport& b) {
  return a.steps_s == b.steps_s && a.breakdown == b.breakdown &&
         std::ranges::equal(a.devices, b.devices, {}, &DeviceRow::device, &DeviceRow::device);
}

ComparedSide side_of(const PlanFile& file) {
  ComparedSide side;
  if (file.measured) {
    side.step_s = {.median = file.measured->step_s, .ci95 = file.measured->step_ci95_s, .samples = file.measured->step_samples};
  } else if (file.predicted) {
    const double step_s = file.predicted->step_s;
    side.step_s = {.median = step_s, .ci95 = {step_s, step_s}, .samples = 0};
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
  comparison.a = side_of(compared_a);
  comparison.b = side_of(compared_b);
}

std::string unmeasured(const PlanFile& a, const PlanFile& b) {
  const std::string who = !a.measured && !b.measured ? "neither plan was" : !a.measured ? "A was never" : "B was never";
  const bool predicted = (a.measured || a.predicted) && (b.measured || b.predicted);
  return who + " measured" + (predicted ? ": the times are predictions" : "");
}

void add_fingerprint_changes(std::vector<std::string>& changes, const Fingerprint& a, const Fingerprint& b) {
  const auto add = [&](const std::string& what, const std::string& in_a, const std::string& in_b) {
    if (in_a != in_b) changes.push_back(what + ": " + (in_a.empty() ? "none" : in_a) + " -> " + (in_b.empty() ? "none" : in_b));
  };
  if (a.model != b.model) changes.emplace_back("model: another one");
  add("input", a.input, b.input);
  add("LibTorch", a.libtorch, b.libtorch);
  add("CUDA", a.cuda, b.cuda);
  if (a.devices != b.devices) changes.emplace_back("machine: made for other devices");
}

}  // namespace

std::string DeviceChange::name() const {
  if (a.empty() || b.empty()) return a + b;
  return a == b ? a : a + " -> " + b;
}

double DeviceChange::share(const PartChange& part) const {
  const double window = parts.front().a_s;
  return window > 0 ? part.difference_s() / window : 0;
}

Comparison compare_traces(const TraceReport& a, const TraceReport& b) {
  Comparison comparison;
  comparison.kind = "traces";
  comparison.a.step_s = estimate_of(a.steps_s);
  comparison.b.step_s = estimate_of(b.steps_s);
  add_traces(comparison, a, b);
  judge_steps(comparison);
  if (a.objection || b.objection)
    withdraw_verdict(comparison, a.objection ? "A: " + text_of(*a.objection) : "B: " + text_of(*b.objection));
  else if (same_recording(a, b) && !a.steps_s.empty())
    call_same(comparison, "both are the same recording");
  return comparison;
}

Comparison compare_plan_files(const PlanFile& a, const PlanFile& b) {
  Comparison comparison;
  comparison.kind = "plans";
  comparison.a = side_of(a);
  comparison.b = side_of(b);
  fall_back_to_predictions(comparison, a, b);
  judge_steps(comparison);
  if (!a.measured || !b.measured) withdraw_verdict(comparison, unmeasured(a, b));
  if (to_json(a) == to_json(b)) call_same(comparison, "both files say the same");
  add_plan_changes(comparison, a.plan, b.plan);
  add_fingerprint_changes(*comparison.plan_changes, a.fingerprint, b.fingerprint);
  if (a.fingerprint.model != b.fingerprint.model || a.fingerprint.input != b.fingerprint.input)
    withdraw_verdict(comparison, "steps of two models, or of two inputs, are different work");
  return comparison;
}

Comparison compare_studies(const StudyReport& a, const StudyReport& b) {
  Comparison comparison;
  comparison.kind = "studies";
  const tuner::Trial& in_a = a.recommendation.recommended.trial;
  const tuner::Trial& in_b = b.recommendation.recommended.trial;
  const Samples steps_a = std::get<tuner::Measured>(in_a.outcome).step_s, steps_b = std::get<tuner::Measured>(in_b.outcome).step_s;
  comparison.a.step_s = estimate_of(steps_a);
  comparison.b.step_s = estimate_of(steps_b);
  judge_steps(comparison);
  if (steps_a == steps_b && in_a.plan == in_b.plan) call_same(comparison, "both recommend the same plan by the same samples");
  if (a.trace && b.trace && !a.trace->objection && !b.trace->objection) add_traces(comparison, *a.trace, *b.trace);
  add_plan_changes(comparison, in_a.plan, in_b.plan);
  if (a.model != b.model) {
    comparison.plan_changes->push_back("model: " + a.model + " -> " + b.model);
    withdraw_verdict(comparison, "steps of " + a.model + " and of " + b.model + " are different work");
  }
  return comparison;
}

void add_plan_changes(Comparison& comparison, const Plan& a, const Plan& b) {
  comparison.plan_changes = plan_changes(a, b);
  if (a.global_batch_size() != b.global_batch_size()) {
    withdraw_verdict(comparison, "steps of " + std::to_string(a.global_batch_size()) + " and of " + std::to_string(b.global_batch_size()) +
                                     " samples are different work");
  }
}

}  // namespace mptune::reports
