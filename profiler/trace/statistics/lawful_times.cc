#include "profiler/trace/statistics/lawful_times.h"

#include <algorithm>

namespace mptune::profiler {

std::vector<double> lawful_times(const std::vector<int>& sizes, std::vector<double> times) {
  for (std::size_t i = times.size(); i > 1; --i) times[i - 2] = std::min(times[i - 2], times[i - 1]);
  // Times stay ascending: a smaller size is covered by at most as many copies of the same part.
  for (std::size_t i = 1; i < times.size(); ++i) {
    for (std::size_t part = 0; part < i; ++part) {
      const int parts = (sizes[i] - 1) / sizes[part] + 1;
      times[i] = std::min(times[i], parts * times[part]);
    }
  }
  return times;
}

}  // namespace mptune::profiler
