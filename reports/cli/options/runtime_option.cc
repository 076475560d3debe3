#include "reports/cli/options/runtime_option.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "planner/plan/executable.h"
#include "planner/search/space/given_choices.h"
#include "profiler/base/error.h"
#include "profiler/base/nearest_word.h"
#include "reports/cli/options/options.h"
#include "reports/cli/program/option_values.h"

namespace mptune::reports {

static const std::vector<std::string> kNames = {kRuntimeNames.begin(), kRuntimeNames.end()};

void add_runtime_option(CLI::App& command, std::string& runtime, const std::string& help) {
  offer_values(*command.add_option("--runtime", runtime, help)->type_name("NAME")->group(kSearchGroup), kNames);
}

void add_runtime_option(CLI::App& command, std::string& runtime) {
  add_runtime_option(command, runtime,
                     "whose program runs the plan, and so when a stage sends and waits: mptune, torch (torch.distributed.pipelining), "
                     "megatron or deepspeed; default: mptune");
}

Runtime parse_runtime(const std::string& text) {
  if (text.empty()) return Runtime::mptune;
  if (const auto runtime = runtime_of(text)) return *runtime;
  throw Error("'" + text + "' is not a runtime", "--runtime", did_you_mean(text, kNames, "use mptune, torch, megatron or deepspeed"));
}

void restrict_to(Runtime runtime, SearchSpace& space) {
  if (runtime == Runtime::mptune) return;
  space.capabilities = capabilities_of(runtime);
  space.idle_devices_help = false;
  space.look_beyond = false;
  if (const std::string why = planner::why_not_executable(space, space.capabilities); !why.empty())
    throw Error(std::string(name_of(runtime)) + " can't run " + space.schedules.front() + ": " + why, "--runtime",
                "leave --schedule out, or use a schedule of this runtime");
  if (space.capabilities.any_order || !space.schedules.empty()) return;
  space.schedules = {"1f1b"};
  if (space.capabilities.several_stages_per_device) space.schedules.emplace_back("interleaved");
}

void check_runs_on(Runtime runtime, const Plan& plan, const std::string& where) {
  if (const std::string why = why_not_executable(plan, capabilities_of(runtime)); !why.empty())
    throw Error(std::string(name_of(runtime)) + " can't run this plan: " + why, where,
                std::string("make one for it: mptune plan --runtime ") + name_of(runtime));
}

std::string runtime_note(Runtime runtime) {
  if (runtime == Runtime::mptune) return "";
  return std::string("stages send and wait as in ") + name_of(runtime);
}

}  // namespace mptune::reports
