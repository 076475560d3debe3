#include "planner/plan/threads.h"

#include <algorithm>

#include "planner/plan/plan_error.h"
#include "profiler/base/device_spec.h"
#include "profiler/base/index.h"
#include "profiler/base/text.h"

namespace mptune::planner {
namespace {

std::vector<int> default_list(const std::vector<std::string>& devices) {
  std::vector<int> threads;
  for (const std::string& device : devices) threads.push_back(default_threads(device));
  return threads;
}

}  // namespace

int default_threads(const std::string& device) {
  const auto spec = find_device(device);
  return spec && spec->kind == DeviceSpec::Kind::cpu ? static_cast<int>(spec->cores.size()) : 1;
}

std::vector<int> threads_of_devices(const std::vector<std::string>& devices, int threads) {
  if (threads == 0) return {};
  const std::vector<int> most = default_list(devices);
  std::vector<int> list;
  for (const int count : most) list.push_back(std::min(threads, count));
  return list == most ? std::vector<int>{} : list;
}

int threads_of(const Plan& plan, int device) {
  return plan.options.threads.empty() ? default_threads(plan.devices[as_index(device)]) : plan.options.threads[as_index(device)];
}

bool has_default_threads(const Plan& plan) {
  return plan.options.threads.empty() || plan.options.threads == default_list(plan.devices);
}

std::string threads_in_words(const Plan& plan) {
  if (has_default_threads(plan)) return "";
  const std::vector<int>& threads = plan.options.threads;
  if (std::ranges::count(threads, threads.front()) == std::ssize(threads)) return counted(threads.front(), "thread") + " a device";
  std::string text;
  for (const int count : threads) text += (text.empty() ? "" : ", ") + std::to_string(count);
  return text + " threads";
}

void validate_threads(const Plan& plan, const std::string& where) {
  const std::vector<int>& threads = plan.options.threads;
  if (threads.empty()) return;
  if (threads.size() != plan.devices.size())
    throw PlanError(
        "the plan has " + counted(std::ssize(threads), "number") + " of threads for " + counted(std::ssize(plan.devices), "device"), where,
        "list one for each device, or none");
  for (std::size_t i = 0; i < threads.size(); ++i) {
    const int most = default_threads(plan.devices[i]);
    if (threads[i] >= 1 && threads[i] <= most) continue;
    throw PlanError(
        plan.devices[i] + " can't have " + std::to_string(threads[i]) + " threads", where,
        most > 1 ? "use 1 to " + std::to_string(most) + ", one per core at most" : "use 1: only devices of several cores have more");
  }
}

}  // namespace mptune::planner
