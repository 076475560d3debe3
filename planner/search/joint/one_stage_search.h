#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/plan/parallelism.h"
#include "planner/search/joint/evaluator.h"
#include "planner/search/space/choices.h"

namespace mptune::planner {

/// Evaluates each plan of one stage: on one device, on the device of all cores, and with replicas on all devices.
class OneStageSearch {
 public:
  /// All arguments must outlive this object. `caps` are per device of the space, 0: none.
  OneStageSearch(const SearchSpace& space, const CostModel& cost, const std::vector<std::int64_t>& caps, const Choices& choices,
                 Evaluator& evaluator);

  void run();

 private:
  void try_single_devices();
  void try_plan(Parallelism kind, const std::vector<std::string>& devices, int m, const std::vector<std::int64_t>& caps);

  const SearchSpace& space_;
  const CostModel& cost_;
  const std::vector<std::int64_t>& caps_;
  const Choices& choices_;
  Evaluator& evaluator_;
};

}  // namespace mptune::planner
