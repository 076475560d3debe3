#include "planner/schedule/layout.h"

#include "profiler/base/index.h"

namespace mptune::planner {

Layout::Layout(const Plan& plan) : microbatches_(plan.num_microbatches()), on_(plan.devices.size()) {
  for (int s = 0; s < plan.num_stages(); ++s) {
    const std::vector<int>& devices = plan.stages[as_index(s)].devices;
    const int replicas = static_cast<int>(devices.size());
    first_unit_.push_back(static_cast<int>(units_.size()));
    replicas_.push_back(replicas);
    for (int r = 0; r < replicas; ++r) {
      const int device = devices[as_index(r)];
      on_[as_index(device)].push_back(static_cast<int>(units_.size()));
      units_.push_back({s, device, r, replicas, (microbatches_ - r + replicas - 1) / replicas});
    }
  }
}

}  // namespace mptune::planner
