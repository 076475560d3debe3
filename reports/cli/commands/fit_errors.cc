#include "reports/cli/commands/fit_errors.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/advise/fit_choices.h"
#include "profiler/base/index.h"
#include "profiler/base/units.h"
#include "reports/render/fit_text.h"
#include "reports/values/follow_up.h"
#include "tuner/runtime/graph/capabilities.h"

namespace mptune::reports {
namespace {

/// After a plan ran out of memory although it was predicted to fit, a change must need at most this share of the prediction.
constexpr double kClearlyLess = 0.95;

std::vector<std::int64_t> caps_of_profile(const std::vector<std::string>& devices, const Profile& profile) {
  std::vector<std::int64_t> caps;
  for (const std::string& device : devices) {
    const auto known = std::ranges::find(profile.devices, device, &ProfileDevice::name);
    caps.push_back(known == profile.devices.end() ? 0 : known->memory_bytes);
  }
  return caps;
}

bool knows_measured_peaks(const PlanFile& file) {
  return file.measured && !file.measured->peak_bytes.empty();
}

planner::Excess excess_by_file(const PlanFile& file, const tuner::TrainingSetup& setup) {
  std::vector<std::int64_t> peaks;
  if (knows_measured_peaks(file))
    peaks = file.measured->peak_bytes;
  else if (file.predicted)
    peaks = file.predicted->peak_bytes;
  if (peaks.size() != file.plan.devices.size()) return {};
  return planner::excess_of(file.plan, peaks, file.plan.devices, caps_of(file.plan.devices, setup));
}

/// Says how to find a plan that fits, without a profile.
std::string search_remedy(const Plan& plan, TrainingSpec training) {
  std::string less;
  if (plan.num_microbatches() < plan.global_batch_size()) less = fmt::format("more micro-batches than {}", plan.num_microbatches());
  const bool all = std::ranges::all_of(plan.stages, [](const Stage& stage) { return stage.recompute.mode == Recompute::Mode::all; });
  if (!all) less += std::string(less.empty() ? "" : " or ") + "--recompute all";
  training.devices = devices_option(plan.devices);
  training.batch = std::to_string(plan.global_batch_size());
  return (less.empty() ? "" : less + " needs less; ") + "find a plan that fits with `" + training_command("tune", training).text() + "`";
}

}  // namespace

std::vector<std::int64_t> caps_of(const std::vector<std::string>& devices, const tuner::TrainingSetup& setup) {
  std::vector<std::int64_t> caps;
  for (const std::string& device : devices) {
    const auto cap = setup.memory_bytes.find(device);
    caps.push_back(cap == setup.memory_bytes.end() ? 0 : cap->second);
  }
  return caps;
}

Profile with_caps(Profile profile, const std::vector<std::string>& devices, const std::vector<std::int64_t>& memory_bytes) {
  for (std::size_t i = 0; i < std::min(devices.size(), memory_bytes.size()); ++i) {
    const auto known = std::ranges::find(profile.devices, devices[i], &ProfileDevice::name);
    if (known != profile.devices.end() && memory_bytes[i] > 0) known->memory_bytes = memory_bytes[i];
  }
  return profile;
}

planner::FitAnswer fit_of(const Plan& plan, const std::vector<std::string>& devices, const Profile& profile) {
  planner::FitQuestion question{
      .plan = plan, .devices = devices, .memory_bytes = caps_of_profile(devices, profile), .capabilities = tuner::kRuntime};
  if (!executable(plan, tuner::kRuntime))
    question.capabilities = {};  // a plan that can only be simulated may change into another such plan
  return planner::smallest_changes_that_fit(question, CostModel(profile, plan));
}

Error does_not_fit(const planner::FitAnswer& answer) {
  const planner::Excess& excess = answer.excess;
  return {fmt::format("the plan does not fit: it needs {}, {} more than the cap of {}", format_bytes(excess.cap_bytes + excess.bytes),
                      format_bytes(excess.bytes), format_bytes(excess.cap_bytes)),
          excess.device, fit_remedy(answer), ExitCode::infeasible};
}

Error nothing_fits(const SearchSpace& space, const SearchResult& failed, const Profile& profile, const planner::SearchWith& search_with) {
  const std::string where = failed.smallest_excess_device.empty() ? "--memory" : failed.smallest_excess_device;
  const std::string more =
      failed.smallest_excess_bytes > 0 ? ": the nearest one needs " + format_bytes(failed.smallest_excess_bytes) + " more" : "";
  return {"no plan fits" + more, where, fit_remedy(planner::choices_that_fit(space, failed, profile, search_with)), ExitCode::infeasible};
}

Error with_remedy(const Error& error, const std::string& remedy) {
  return {error.problem(), error.where(), remedy, error.code()};
}

PlanChoice with_options(PlanChoice choice, const std::vector<planner::FieldValue>& options) {
  for (const planner::FieldValue& stated : options) {
    for (const PlanChoiceOption& option : plan_choice_options())
      if (option.field == stated.field) choice.*option.text = stated.value;
    if (stated.field == planner::Field::microbatches) choice.split_size.clear();
  }
  return choice;
}

std::string option_or(const std::vector<planner::FieldValue>& options, planner::Field field, const std::string& otherwise) {
  const auto stated = std::ranges::find(options, field, &planner::FieldValue::field);
  return stated == options.end() ? otherwise : stated->value;
}

Error ran_out_anyway(const Error& error, const tuner::OutOfMemory& memory, const Plan& plan, const std::vector<std::string>& devices,
                     Profile profile) {
  const std::string& device = memory.device;
  const auto index = as_index(std::ranges::find(plan.devices, device) - plan.devices.begin());
  if (index == plan.devices.size()) return error;
  const std::int64_t predicted = CostModel(profile, plan).peak_bytes(plan).at(index);
  const auto known = std::ranges::find(profile.devices, device, &ProfileDevice::name);
  const auto less = static_cast<std::int64_t>(kClearlyLess * static_cast<double>(predicted));
  known->memory_bytes = known->memory_bytes > 0 ? std::min(known->memory_bytes, less) : less;
  // The cap was lowered here and is not the user's, so the message doesn't say that nothing fits it.
  const planner::FitAnswer fit = fit_of(plan, devices, profile);
  const std::string remedy =
      fit.changes.empty() ? "no change is predicted to need clearly less there: raise --memory for " + device + ", or name more devices"
                          : fit_remedy(fit);
  return {fmt::format("{} (predicted were {} there)", error.problem(), format_bytes(predicted)), device, remedy, ExitCode::infeasible};
}

void refuse_by_plan_file(const PlanFile& file, const tuner::TrainingSetup& setup, const TrainingSpec& training, const std::string& path) {
  const planner::Excess excess = excess_by_file(file, setup);
  if (excess.bytes > 0) {
    throw Error(
        fmt::format("the plan does not fit: it needs {} on {} ({}), {} more than the cap", format_bytes(excess.cap_bytes + excess.bytes),
                    excess.device, knows_measured_peaks(file) ? "measured" : "predicted", format_bytes(excess.bytes)),
        path, search_remedy(file.plan, training), ExitCode::infeasible);
  }
}

Error ran_out_of_plan(const Error& error, const tuner::OutOfMemory& memory, const Plan& plan, const TrainingSpec& training) {
  return {error.problem(), memory.device.empty() ? error.where() : memory.device, search_remedy(plan, training), ExitCode::infeasible};
}

}  // namespace mptune::reports
