#include "planner/partition/best_cuts.h"

#include <algorithm>

namespace mptune::planner {

bool BestCuts::add(RatedCuts rated) {
  if (rated.step_ns > longest_ns_ || (full() && !ranks_before(rated, kept_.back()))) return false;
  const auto place = std::lower_bound(kept_.begin(), kept_.end(), rated, ranks_before);
  if (place != kept_.end() && place->cuts == rated.cuts) return false;
  kept_.insert(place, std::move(rated));
  if (kept_.size() > keep_) kept_.pop_back();
  return true;
}

}  // namespace mptune::planner
