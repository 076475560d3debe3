#include "planner/topology/uniform_shapes.h"

#include <algorithm>

namespace mptune::planner {
namespace {

std::vector<int> divisors_of(int number) {
  std::vector<int> found;
  for (int d = 1; d <= number / d; ++d) {
    if (number % d != 0) continue;
    found.push_back(d);
    if (d != number / d) found.push_back(number / d);
  }
  std::ranges::sort(found);
  return found;
}

bool is_wanted(const std::vector<int>& choices, int value) {
  return choices.empty() || std::ranges::find(choices, value) != choices.end();
}

void add_placements(UniformShape shape, std::vector<UniformShape>& shapes) {
  shapes.push_back(shape);
  if (shape.stages == 1 || shape.replicas == 1) return;
  shape.placement = Placement::replicas_near;
  shapes.push_back(shape);
}

}  // namespace

std::vector<UniformShape> uniform_shapes(const UniformSpace& space, int devices, int most_stages) {
  std::vector<UniformShape> shapes;
  for (const int replicas : divisors_of(space.batch)) {
    if (replicas > devices || !is_wanted(space.replica_counts, replicas)) continue;
    for (int stages = 1; stages <= std::min(most_stages, devices / replicas); ++stages) {
      if (!is_wanted(space.stage_counts, stages)) continue;
      for (const int microbatches : divisors_of(space.batch / replicas))
        if (is_wanted(space.microbatch_counts, replicas * microbatches) && space.samples.takes(space.batch / replicas / microbatches))
          add_placements({stages, replicas, microbatches}, shapes);
    }
  }
  return shapes;
}

}  // namespace mptune::planner
