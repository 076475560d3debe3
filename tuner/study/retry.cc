#include "tuner/study/retry.h"

#include <algorithm>
#include <map>

namespace mptune::tuner {

bool worth_retrying(const Outcome& outcome) {
  return was_killed(outcome) || std::holds_alternative<TimedOut>(outcome) || std::holds_alternative<Environment>(outcome) ||
         std::holds_alternative<Interrupted>(outcome);
}

std::vector<std::string> plans_to_retry(const std::vector<Trial>& trials) {
  std::map<std::string, const Outcome*> last;
  for (const Trial& trial : trials) last[trial.plan_key] = &trial.outcome;
  std::vector<std::string> keys;
  for (const auto& [key, outcome] : last)
    if (worth_retrying(*outcome)) keys.push_back(key);
  return keys;
}

bool all_failed_for_good(const std::vector<Trial>& trials) {
  return !trials.empty() && plans_to_retry(trials).empty() &&
         std::ranges::none_of(trials, [](const Trial& trial) { return std::holds_alternative<Measured>(trial.outcome); });
}

}  // namespace mptune::tuner
