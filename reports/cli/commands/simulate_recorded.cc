#include "reports/cli/commands/simulate_recorded.h"

#include <fmt/format.h>

#include <numeric>

#include "planner/advise/recorded_run.h"
#include "planner/plan/executable.h"
#include "planner/plan/helping.h"
#include "planner/plan/plan_words.h"
#include "planner/schedule/schedule_info.h"
#include "planner/search/space/given_choices.h"
#include "profiler/base/error.h"
#include "profiler/base/printable.h"
#include "profiler/base/text.h"
#include "profiler/base/units.h"
#include "profiler/trace/store/store.h"
#include "reports/cli/commands/recordings.h"
#include "reports/cli/commands/simulate_output.h"
#include "reports/cli/options/runtime_option.h"
#include "reports/render/report_text.h"
#include "reports/render/units.h"

namespace mptune::reports {
namespace {

/// Returns the number of stages that is asked for; `recorded` where none is.
int wanted_stages(const PlanOptions& wanted, const PlanChoice& choice, int recorded, int devices) {
  if (!choice.cuts.empty()) return recorded;  // between recorded stages
  if (wanted.stages > 0) return wanted.stages;
  if (const int each = planner::asked_virtual_stages(wanted); each > 0) return each * devices;
  return planner::find_schedule(wanted.schedule) != nullptr ? devices : recorded;
}

struct Predicted {
  planner::RecordedRun run;
  Plan plan;
};

/// Divides recorded stages and micro-batches so finely that the plan that is asked for has whole numbers of them.
Predicted predicted_plan(const RecordedCommand& command, const Trace& trace) {
  planner::RecordedRun recorded = planner::recorded_run(trace, 1, 1, command.trace);
  if (!command.choice.any()) return {recorded, recorded.plan};
  const PlanOptions wanted = plan_values(command.choice);
  const int stages = recorded.plan.num_stages(), microbatches = recorded.plan.num_microbatches();
  const int new_stages = wanted_stages(wanted, command.choice, stages, static_cast<int>(recorded.plan.devices.size()));
  const int new_microbatches = wanted.microbatches > 0 ? wanted.microbatches : microbatches;
  const int parts = std::lcm(stages, new_stages) / stages;
  constexpr std::int64_t kMostLayers = 1 << 16, kMostActions = 1'000'000, kMostSamples = 1 << 30;
  if (std::int64_t{parts} * stages > kMostLayers || std::int64_t{new_microbatches} * new_stages > kMostActions ||
      std::int64_t{new_microbatches} / std::gcd(new_microbatches, microbatches) * microbatches > kMostSamples)
    throw Error("so many stages and micro-batches are not simulated here", "--microbatches",
                "use fewer, or a multiple of the " + std::to_string(microbatches) + " recorded micro-batches");
  Predicted predicted{planner::recorded_run(trace, parts, new_microbatches / std::gcd(new_microbatches, microbatches), command.trace), {}};
  PlanChoice choice = command.choice;
  if (choice.stages.empty() && choice.cuts.empty()) choice.stages = std::to_string(new_stages);
  choice.microbatches = std::to_string(new_microbatches);
  predicted.plan = plan_from_options(choice, predicted.run.plan.devices, predicted.run.profile.batch, predicted.run.profile.layers);
  return predicted;
}

/// A trace of times says nothing of memory.
Simulation without_memory(Simulation simulation) {
  simulation.prediction.peak_bytes.clear();
  simulation.trace.memory.clear();
  for (TraceDevice& device : simulation.trace.devices) device.memory_bytes = device.peak_bytes = 0;
  return simulation;
}

}  // namespace

int simulate_recorded(const RecordedCommand& command, const Session& session) {
  session.say("simulating from " + command.trace);
  const profiler::Recording recording = read_any_recording(command.trace);
  if (!command.output.path.empty()) check_output(command.output.path, kSqliteMagic, command.output.force, {command.trace});
  Predicted predicted = predicted_plan(command, *recording.trace);
  planner::RecordedRun& run = predicted.run;
  run.profile.runtime = command.runtime;
  if (const std::string why = why_not_executable(predicted.plan, capabilities_of(command.runtime)); !why.empty())
    throw Error(std::string(name_of(command.runtime)) + " can't run this plan: " + why, "--runtime",
                "add --schedule 1f1b, or name another runtime");
  const CostModel cost(run.profile, predicted.plan);
  const Simulation simulation = without_memory(simulate(predicted.plan, cost));
  if (cost.assumes_halves() && planner::splits_backward(predicted.plan))
    run.assumed.emplace_back("half of a backward for the gradients of inputs and half for those of weights: the trace has the whole only");
  const planner::StepSpread spread = planner::spread_of_steps(predicted.plan, cost, run);
  run.profile.runtime = Runtime::mptune;  // the recorded order need not be one that another runtime has
  const planner::StepSpread again = planner::spread_of_steps(run.plan, CostModel(run.profile, run.plan), run);
  const double recorded_s = median(run.step_s);
  TraceReport report = build_trace_report(simulation.trace, {}, "Predicted: " + describe(predicted.plan));
  add_plan(report, predicted.plan, nullptr);
  if (!command.output.path.empty()) {
    profiler::Recording written;
    written.trace = simulation.trace;
    written.plan_json = plan_to_json(predicted.plan, {});
    profiler::write_recording(written, command.output.path, command.output.force);
  }
  planner::Json json = simulated_json(predicted.plan, {}, simulation.prediction, report, command.runtime, command.output.path);
  json["assumed"] = run.assumed;
  json["recorded"] = {{"step_s", recorded_s},
                      {"steps", run.step_s.size()},
                      {"simulated_step_s", again.median_s},
                      {"varied_step_s", spread.median_s},
                      {"varied_step_range95_s", {spread.range95_s.low, spread.range95_s.high}}};
  std::vector<std::string> lines = {
      fmt::format("predicted step {} as times vary in the trace, 95 % of steps {}; {} with median times", format_seconds(spread.median_s),
                  format_interval_seconds(spread.range95_s), format_seconds(simulation.prediction.step_s)),
      fmt::format("recorded step {} ({} step{}); the recorded order, simulated the same way: {} ({:+.1f} %)", format_seconds(recorded_s),
                  run.step_s.size(), run.step_s.size() == 1 ? "" : "s", format_seconds(again.median_s),
                  100 * (again.median_s / recorded_s - 1))};
  if (std::string runtime = runtime_note(command.runtime); !runtime.empty()) lines.push_back(std::move(runtime));
  for (const std::string& assumption : run.assumed) lines.push_back("assumed " + assumption);
  std::string text = render_trace_report(report, session.style, {});
  for (const std::string& line : lines) text += join(wrap(line, session.style.width), "\n") + "\n";
  session.result(text + (command.output.path.empty() ? "" : "trace   " + printable(command.output.path) + "\n"), json);
  return 0;
}

}  // namespace mptune::reports
