#include "reports/cli/commands/tune_phases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "profiler/base/error.h"
#include "profiler/base/text.h"
#include "profiler/base/units.h"
#include "profiler/trace/store/store.h"
#include "reports/values/follow_up.h"
#include "tuner/study/no_result.h"
#include "tuner/worker/host/worker_process.h"

namespace mptune::reports {
namespace {

/// Returns options to wait for a worker until `seconds` from now.
tuner::WaitOptions wait_for(const Session& session, double seconds) {
  return wait_options(session, tuner::monotonic_seconds() + seconds);
}

/// Returns the profile of the study, and stores with it what was asked for, so that `plan` can say it again.
Profile keep_training(const std::string& path, const TrainingSpec& training) {
  profiler::Recording recording = profiler::read_recording(path);
  if (!recording.profile)
    throw Error("mptune-worker measured nothing", path, "make sure that both programs are of the same build", ExitCode::internal);
  recording.training = training;
  profiler::write_recording(recording, path, false);
  return *std::move(recording.profile);
}

}  // namespace

bool check_pieces(const Tuning& tuning, const tuner::PhaseTime& time, const Session& session, ProgressLine& progress) {
  tuner::TrainingSetup setup = tuning.setup;
  setup.batch = 0;
  const std::string by_itself = "`" + training_command("check", tuning.training).text() + "`";
  const auto warn_of = [&](const std::string& parts) {
    session.warn("for lack of time the model's pieces were not compared with the whole model (" + parts + "): " + by_itself + " does it");
  };
  try {
    const RequestTime request{time.share_s, tuner::monotonic_seconds()};
    const tuner::CheckResult result = check_model(setup, std::nullopt, request, wait_for(session, time.most_s), progress);
    if (const tuner::CheckPart* failed = tuner::first_failure(result))
      throw Error("the model's pieces do not train as the whole model does", tuner::difference_text(*failed),
                  failed->remedy + "; see " + by_itself);
    const std::vector<std::string> late = tuner::parts_without_time(result);
    if (!late.empty()) warn_of(join(late, ", "));
    return late.empty();
  } catch (const tuner::OutOfTime&) {
    warn_of("all of it");
    return false;
  }
}

Profile measure_layers(const TuneCommand& command, const Tuning& tuning, const tuner::Study& study, const tuner::PhaseTime& time,
                       const Session& session, ProgressLine& progress) {
  const tuner::TuneOptions& options = tuning.options;
  std::optional<tuner::PassTimed> pass;
  try {
    measure_profile(tuning.setup, study.profile_path(), {time.share_s, tuner::monotonic_seconds(), time.most_s}, command.choice,
                    options.current ? &*options.current : nullptr, session, wait_for(session, time.most_s + tuning.grace_s), progress,
                    [&](const tuner::PassTimed& timed) { pass = timed; });
  } catch (const tuner::OutOfTime& error) {
    const std::string what = "the budget was spent before the layers were measured: ";
    if (!pass) throw tuner::BudgetTooSmall(what + error.problem(), 0);
    const tuner::AnswerNeeds needs = tuner::needs_of_pass(pass->samples, pass->seconds, tuning.setup.batch,
                                                          static_cast<int>(options.space.devices.size()), options.worker_s);
    throw tuner::BudgetTooSmall(what + "one pass over " + counted(pass->samples, "sample") + " took " + format_seconds(pass->seconds),
                                tuner::enough_for_answer(needs));
  }
  return keep_training(study.profile_path(), tuning.training);
}

std::string larger_budget(const Error& error, double budget_s) {
  const auto* small = dynamic_cast<const tuner::BudgetTooSmall*>(&error);
  return fmt::format("{:.0f}s", std::ceil(std::max(2 * budget_s, small == nullptr ? 0 : small->enough_s())));
}

tuner::DescribedModel load_model(const Tuning& tuning, const Session& session, double budget_s) {
  try {
    return describe_model(tuning.setup, session, tuning.ends_s + tuning.grace_s);
  } catch (const tuner::OutOfTime& error) {
    throw Error(std::string("the budget was spent before the model was loaded: ") + error.problem(), "--budget",
                "give --budget " + larger_budget(error, budget_s), ExitCode::no_result);
  }
}

}  // namespace mptune::reports
