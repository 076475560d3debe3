#include "planner/plan/parallelism.h"

#include <algorithm>

#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

constexpr std::array<const char*, kParallelisms.size()> kNames = {"one_device", "all_cores", "data_parallel", "pipeline", "hybrid"};

}  // namespace

const char* to_string(Parallelism kind) {
  return kNames[as_index(kind)];
}

std::optional<Parallelism> parallelism_named(const std::string& name) {
  const auto found = std::ranges::find(kParallelisms, name, [](Parallelism kind) { return std::string(to_string(kind)); });
  return found == kParallelisms.end() ? std::nullopt : std::optional(*found);
}

std::string in_words(Parallelism kind) {
  std::string words = to_string(kind);
  std::ranges::replace(words, '_', ' ');
  return words;
}

Parallelism parallelism_of(const Plan& plan, const std::vector<std::string>& whole_machine) {
  if (plan.stages.size() > 1) return has_replicas(plan) ? Parallelism::hybrid : Parallelism::pipeline;
  if (!plan.stages.empty() && plan.stages.front().devices.size() > 1) return Parallelism::data_parallel;
  const bool whole = !plan.devices.empty() && std::ranges::find(whole_machine, plan.devices.front()) != whole_machine.end();
  return whole ? Parallelism::all_cores : Parallelism::one_device;
}

}  // namespace mptune::planner
