#include "reports/cli/program/exit_codes.h"

#include <array>

namespace mptune::reports {
namespace {

constexpr std::array kMeanings{
    ExitCodeMeaning{ExitCode::done, "", "done"},
    ExitCodeMeaning{ExitCode::done, "tune", "done, also where nothing is measurably faster than the best baseline"},
    ExitCodeMeaning{ExitCode::done, "compare", "B is faster, or the same"},
    ExitCodeMeaning{ExitCode::done, "check", "the pieces train as the whole model does"},
    ExitCodeMeaning{ExitCode::internal, "", "a mistake in mptune: please report it"},
    ExitCodeMeaning{ExitCode::usage, "", "bad usage or input: an option, a file, a model, a plan that can't run"},
    ExitCodeMeaning{ExitCode::usage, "tune", "bad usage or input, or a study with measured plans exists (without --resume or --force)"},
    ExitCodeMeaning{ExitCode::infeasible, "", "nothing fits the memory; the message says what would"},
    ExitCodeMeaning{ExitCode::infeasible, "run", "out of memory, or a loss that is not finite"},
    ExitCodeMeaning{ExitCode::infeasible, "profile", "the plan does not fit the memory, or a loss is not finite"},
    ExitCodeMeaning{ExitCode::infeasible, "plan", "no plan fits the memory"},
    ExitCodeMeaning{ExitCode::infeasible, "tune", "no plan fits the memory"},
    ExitCodeMeaning{ExitCode::infeasible, "simulate", "the plan does not fit the memory"},
    ExitCodeMeaning{ExitCode::infeasible, "check", "a loss is not finite"},
    ExitCodeMeaning{ExitCode::differs, "compare", "B is slower"},
    ExitCodeMeaning{ExitCode::differs, "check", "the pieces differ from the whole model"},
    ExitCodeMeaning{ExitCode::inconclusive, "compare", "nothing can be said: AMBIGUOUS or UNKNOWN"},
    ExitCodeMeaning{ExitCode::inconclusive, "tune", "the best plans are too close to tell apart within the budget; the plan is written"},
    ExitCodeMeaning{ExitCode::inconclusive, "profile",
                    "the recording lost too much for a verdict; of profile -- COMMAND also: the command failed"},
    ExitCodeMeaning{ExitCode::inconclusive, "import", "the recording lost too much for a verdict, or holds a time that can't be right"},
    ExitCodeMeaning{ExitCode::no_result, "tune", "the budget had no time for a first result"},
    ExitCodeMeaning{ExitCode::no_result, "plan", "--time was over before a plan that fits was found"},
    ExitCodeMeaning{ExitCode::no_result, "compare", "a study has no result yet"},
    ExitCodeMeaning{ExitCode::no_result, "report", "the study has no result yet"},
    ExitCodeMeaning{ExitCode::environment, "", "the environment: a driver, a library, a permission, a full disk, a limit"},
    ExitCodeMeaning{ExitCode::environment, "doctor", "something is broken"},
    ExitCodeMeaning{ExitCode::interrupted, "", "interrupted (Ctrl-C)"},
    ExitCodeMeaning{ExitCode::terminated, "", "terminated (SIGTERM, SIGHUP, SIGQUIT)"},
};

}  // namespace

std::span<const ExitCodeMeaning> exit_codes() {
  return kMeanings;
}

std::vector<ExitCodeMeaning> exit_codes_of(const std::string& command) {
  std::vector<ExitCodeMeaning> meanings;
  for (const ExitCodeMeaning& meaning : kMeanings)
    if (meaning.command == command) meanings.push_back(meaning);
  return meanings;
}

}  // namespace mptune::reports
