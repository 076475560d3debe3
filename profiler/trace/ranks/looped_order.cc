#include "profiler/trace/ranks/looped_order.h"

#include <algorithm>
#include <iterator>

namespace mptune::profiler {

std::vector<std::pair<int, int>> looped_order(int ranks, int chunks, int microbatches, int count) {
  std::vector<std::pair<int, int>> order;
  const int group = chunks == 1 ? std::max(1, microbatches) : ranks;
  for (int first = 0; first < microbatches && std::ssize(order) < count; first += group)
    for (int chunk = 0; chunk < chunks; ++chunk)
      for (int one = first; one < std::min(first + group, microbatches); ++one) order.emplace_back(chunk, one);
  return order;
}

}  // namespace mptune::profiler
