#include "planner/plan/senders.h"

#include <algorithm>

#include "profiler/base/index.h"

namespace mptune::planner {

std::vector<StageReader> stage_readers(int maker_stage, const std::vector<int>& readers, const std::vector<int>& several,
                                       const std::vector<int>& stage_of) {
  std::vector<StageReader> found;
  for (const int layer : readers) {
    const int stage = stage_of[as_index(layer)];
    if (stage == maker_stage) continue;
    const bool again = !found.empty() && found.back().stage == stage;
    if (!again) found.push_back({stage, false});
    if (again || std::ranges::binary_search(several, layer)) found.back().several = true;
  }
  return found;
}

std::vector<int> senders(int maker, const std::vector<StageReader>& readers) {
  std::vector<int> from(readers.size(), maker);
  std::size_t unsent = readers.size();  // the readers from this index on have their sender
  for (std::size_t r = readers.size(); r-- > 0;) {
    if (!readers[r].several) continue;
    for (std::size_t later = r + 1; later < unsent; ++later) from[later] = readers[r].stage;
    unsent = r + 1;
  }
  return from;
}

}  // namespace mptune::planner
