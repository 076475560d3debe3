#include "profiler/model/exported/layer_ends.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "profiler/model/program/grain.h"

namespace mptune::profiler {
namespace {

/// Returns the state that the program writes to: running statistics, averages. Batch counters count as part of their norms.
std::set<int> written_state(const BoundProgram& bound) {
  std::set<int> written;
  for (int node = 0; node < bound.graph.nodes(); ++node) {
    if (bound.graph.batch_counter(node) >= 0) continue;
    if (bound.graph.running_mean(node) >= 0) written.insert(bound.graph.running_mean(node));
    for (const int value : bound.graph.writes(node))
      if (bound.cuts.is_state(bound.cuts.memory_of(value))) written.insert(bound.cuts.memory_of(value));
  }
  return written;
}

/// Removes cuts between two uses of written state, so that one layer holds it.
std::vector<int> without_written(const BoundProgram& bound, std::vector<int> cuts) {
  const std::set<int> written = written_state(bound);
  std::map<int, std::pair<int, int>> uses;  // first and last node
  for (int node = 0; node < bound.graph.nodes(); ++node) {
    if (bound.graph.batch_counter(node) >= 0) continue;
    for (const int read : bound.graph.reads(node)) {
      const int state = bound.cuts.memory_of(read);
      if (written.count(state) > 0) uses.try_emplace(state, node, node).first->second.second = node;
    }
  }
  std::erase_if(cuts, [&](int cut) {
    return std::any_of(uses.begin(), uses.end(), [&](const auto& use) { return use.second.first < cut && cut <= use.second.second; });
  });
  return cuts;
}

}  // namespace

std::vector<int> exported_layer_ends(const BoundProgram& bound) {
  std::vector<PricedCut> cuts;
  for (const int cut : without_written(bound, bound.cuts.useful())) cuts.push_back({cut, bound.cuts.at(cut).bytes});
  std::vector<int> ends = coarser_cuts(cuts, node_work(bound.program.graph, bound.cuts.symbols()), kMostExportedLayers);
  ends.insert(ends.begin(), 0);
  ends.push_back(bound.graph.nodes());
  return ends;
}

}  // namespace mptune::profiler
