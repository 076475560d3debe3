#include "planner/advise/worth.h"

#include <algorithm>
#include <array>
#include <utility>

#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

constexpr double kLeastPercent = 0.5;

}  // namespace

void Worth::add(Advice advice, double step_s) {
  if (step_s <= 0) return;
  advice.saves_percent = 100 * advice.saves_s / step_s;
  if (advice.saves_percent < kLeastPercent) return;
  list_.push_back(std::move(advice));
}

std::vector<Advice> Worth::take() && {
  std::stable_sort(list_.begin(), list_.end(), [](const Advice& a, const Advice& b) { return a.saves_s > b.saves_s; });
  return std::move(list_);
}

const char* to_string(IdleCause cause) {
  constexpr std::array kNames{"host", "copy_wait", "sync", "structural", "imbalance", "straggler", "jitter", "profiler", "unexplained"};
  return kNames.at(as_index(cause));
}

}  // namespace mptune::planner
