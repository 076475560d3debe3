#include "planner/search/space/space_memory.h"

#include <algorithm>
#include <string>

#include "planner/search/make_plan.h"
#include "profiler/base/index.h"

namespace mptune::planner {

std::vector<std::int64_t> caps_of(const SearchSpace& space) {
  std::vector<std::int64_t> caps = space.memory_bytes;
  caps.resize(space.devices.size(), 0);
  return caps;
}

std::vector<std::int64_t> caps_of(const SearchSpace& space, const Plan& plan) {
  const std::vector<std::int64_t> all = caps_of(space);
  std::vector<std::int64_t> caps;
  for (const std::string& name : plan.devices) {
    const auto at = std::ranges::find(space.devices, name);
    caps.push_back(at == space.devices.end() ? space.whole_machine_memory_bytes : all[as_index(at - space.devices.begin())]);
  }
  return caps;
}

std::int64_t half_of_one_device(const SearchSpace& space, const CostModel& cost) {
  PlanOptions options;
  options.devices = {space.devices.front()};
  options.batch = space.batch;
  options.layers = cost.layers();
  options.schedule = "naive";
  return cost.peak_bytes(make_plan(options)).front() / 2;
}

}  // namespace mptune::planner
