#include "tuner/no_result.h"

#include <algorithm>

namespace mptune::tuner {
namespace {

Error nothing_fits(const SearchResult& search) {
  const std::string excess = search.smallest_excess_bytes > 0
                                 ? ": the nearest plan needs " + std::to_string(search.smallest_excess_bytes) + " bytes more"
                                 : std::string();
  return {"no plan fits into memory" + excess, search.smallest_excess_device.empty() ? "--memory" : search.smallest_excess_device,
          "raise --memory, lower --batch, or give more devices", ExitCode::infeasible};
}

}  // namespace

Error no_result(const SearchResult& search, const std::vector<Trial>& trials, const std::function<std::string(const Trial&)>& keep_failed) {
  const bool memory_alone = std::ranges::all_of(trials, [](const Trial& trial) {
    return std::holds_alternative<OutOfMemory>(trial.outcome) || std::holds_alternative<Infeasible>(trial.outcome);
  });
  if (search.ranked.empty() || (memory_alone && !trials.empty())) return nothing_fits(search);
  if (trials.empty()) return {"the budget was spent before a first trial", "--budget", "give a larger --budget", ExitCode::no_result};
  const Trial& last = trials.back();
  const bool diverges = std::holds_alternative<NonFinite>(last.outcome);
  const std::string alone = keep_failed ? "`" + keep_failed(last) + "` shows what fails" : "run the plan by itself";
  return {"no plan could be measured: " + outcome_text(last.outcome), describe(last.plan),
          diverges ? "lower --lr or check the data" : alone, ExitCode::no_result};
}

}  // namespace mptune::tuner
