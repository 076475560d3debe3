#include "planner/plan/helping.h"

#include <algorithm>

#include "profiler/base/device_spec.h"

namespace mptune::planner {
namespace {

constexpr int kMostThreads = 1 << 16;  // upper limit of a device's threads

}  // namespace

std::vector<int> helping_groups(const std::vector<std::string>& devices, const std::vector<int>& threads) {
  std::vector<int> groups;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const auto spec = find_device(devices[d]);
    const bool helps = spec && spec->kind == DeviceSpec::Kind::cpu;
    if (!helps) {
      groups.push_back(-1);
      continue;
    }
    const int size = threads.empty() ? static_cast<int>(spec->cores.size()) : threads[d];
    groups.push_back(spec->rank * kMostThreads + size);
  }
  return groups;
}

bool all_can_help(const std::vector<std::string>& devices) {
  const std::vector<int> groups = helping_groups(devices);
  return groups.size() > 1 && groups.front() >= 0 && std::ranges::count(groups, groups.front()) == std::ssize(groups);
}

bool splits_backward(const Plan& plan) {
  return std::ranges::any_of(plan.actions, [](const std::vector<Action>& row) {
    return std::ranges::any_of(
        row, [](const Action& action) { return action.kind == ActionKind::backward_input || action.kind == ActionKind::backward_weight; });
  });
}

}  // namespace mptune::planner
