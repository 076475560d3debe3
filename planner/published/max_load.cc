#include "planner/published/max_load.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "planner/partition/gap.h"
#include "planner/published/load_search.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

// The best split so far, and what is proved.
struct LoadProgress {
  const profiler::PlacementGraph& graph;
  LoadProblem problem;
  LoadBounds bounds;
  std::int64_t lower_ns = 0;
  std::optional<LoadPartition> best;
  LoadWork work;

  explicit LoadProgress(const profiler::PlacementGraph& given)
      : graph(given), problem(load_problem(given)), bounds(problem), lower_ns(bounds.lower_bound_ns()) {}
  /// Loads from here on are of no interest.
  [[nodiscard]] std::int64_t above_ns() const { return best ? best->load_ns : bounds.upper_bound_ns() + 1; }
};

// Values of a search take eight bytes each per ideal and number of devices used: half a gigabyte at most.
std::int64_t most_ideals(const LoadProblem& problem) {
  const std::int64_t states = (std::int64_t{1} + problem.devices) * (1 + problem.hosts);
  return (std::int64_t{1} << 26) / states;
}

void check_memory(const profiler::PlacementGraph& graph, const LoadProblem& problem, const Ideals& ideals) {
  if (ideals.size() <= most_ideals(problem)) return;
  std::string what = std::to_string(problem.size());
  what +=
      " nodes on " + std::to_string(problem.devices) + " devices and " + std::to_string(problem.hosts) + " hosts need more than 512 MiB";
  throw Error(what, graph.name.empty() ? "the graph" : graph.name, "use fewer devices or hosts");
}

[[noreturn]] void refuse_infeasible(const profiler::PlacementGraph& graph, bool proved) {
  throw Error(proved ? "no split over the devices fits into their memory" : "no split was found that fits into the memory of the devices",
              graph.name.empty() ? "the graph" : graph.name, "raise the memory of a device or the number of devices", ExitCode::infeasible);
}

LoadPart part_of(const profiler::PlacementGraph& graph, const LoadProblem& problem, const Ideals& ideals, int before, int after,
                 bool on_host) {
  LoadPart part;
  part.on_host = on_host;
  for (int group = 0; group < problem.size(); ++group) {
    if (!ideals.holds(after, group) || ideals.holds(before, group)) continue;
    const auto& nodes = problem.groups[as_index(group)].nodes;
    part.nodes.insert(part.nodes.end(), nodes.begin(), nodes.end());
  }
  std::ranges::stable_partition(part.nodes, [&](int node) { return !graph.nodes[as_index(node)].backward; });
  const IdealSums& first = ideals.sums(before);
  const IdealSums& last = ideals.sums(after);
  part.compute_ns = on_host ? last.host_ns - first.host_ns : last.device_ns - first.device_ns;
  part.copy_ns = on_host ? 0 : ideals.copy_ns(before, after);
  part.bytes = last.bytes - first.bytes;
  return part;
}

void keep_split(LoadProgress& progress, const Ideals& ideals, const LoadSplit& split) {
  LoadPartition partition;
  partition.load_ns = split.load_ns;
  for (std::size_t p = 0; p + 1 < split.ideals.size(); ++p)
    partition.parts.push_back(part_of(progress.graph, progress.problem, ideals, split.ideals[p], split.ideals[p + 1], split.on_hosts[p]));
  progress.best = std::move(partition);
}

// Seeks the best split of a family with limits that begin at what is proved: the lower a limit, the fewer parts have to be priced. A family
// of all ideals also proves what it does not find.
void search_family(LoadProgress& progress, const Ideals& ideals, bool all) {
  LoadSearch family(progress.problem, progress.bounds, ideals, progress.work);
  const std::int64_t from = progress.lower_ns;
  for (std::int64_t width = from / 128 + 1; progress.lower_ns < progress.above_ns(); width *= 2) {
    const std::int64_t most = from + std::min(width, progress.above_ns() - 1 - from);
    const auto split = family.least_load(most);
    if (progress.work.ended) return;
    if (split) keep_split(progress, ideals, *split);
    if (all) progress.lower_ns = split ? split->load_ns : most + 1;
    if (split || most == progress.above_ns() - 1) return;
  }
}

// Returns the groups in an order that precedence allows. Where there is a choice, the group that became free last comes first.
std::vector<int> depth_first(const std::vector<std::vector<int>>& before, const std::vector<std::vector<int>>& after) {
  std::vector<std::size_t> missing;
  std::vector<int> ready;
  for (std::size_t group = before.size(); group-- > 0;)
    if (before[group].empty()) ready.push_back(static_cast<int>(group));
  std::ranges::transform(before, std::back_inserter(missing), [](const auto& groups) { return groups.size(); });
  std::vector<int> order;
  while (!ready.empty()) {
    order.push_back(ready.back());
    ready.pop_back();
    const std::vector<int>& next = after[as_index(order.back())];
    for (auto group = next.rbegin(); group != next.rend(); ++group)
      if (--missing[as_index(*group)] == 0) ready.push_back(*group);
  }
  return order;
}

// Returns what lies before each cut of a few orders. For a chain, these are all cuts.
Ideals ideals_of_orders(const LoadProblem& problem) {
  std::vector<int> as_numbered(problem.groups.size());
  std::iota(as_numbered.begin(), as_numbered.end(), 0);
  std::vector<int> from_the_end = depth_first(problem.after, problem.before);
  std::ranges::reverse(from_the_end);
  Ideals ideals(problem);
  for (const auto& order : {as_numbered, depth_first(problem.before, problem.after), from_the_end}) {
    int ideal = 0;
    for (const int group : order) ideal = ideals.flip(ideal, group);
  }
  ideals.sort();
  return ideals;
}

// Adds what differs from one of `cuts` by `flips` groups at most: some removed, last first, then others added, first first, so that each is
// made only once. Returns false where there are more than `most`.
bool add_neighbours(Ideals& ideals, const std::vector<int>& cuts, int flips, std::int64_t most) {
  struct Step {
    int ideal = 0;
    int taken = std::numeric_limits<int>::max();
    int added = -1;
  };
  std::vector<Step> frontier;
  for (const int cut : cuts) frontier.push_back({cut});
  for (int flip = 0; flip < flips; ++flip) {
    std::vector<Step> next;
    for (const Step& step : frontier) {
      const std::vector<int> last = step.added < 0 ? ideals.last(step.ideal) : std::vector<int>{};
      const std::vector<int> open = ideals.open(step.ideal);
      if (ideals.size() + static_cast<std::int64_t>(last.size() + open.size()) > most) return false;
      for (const int group : last)
        if (group < step.taken) next.push_back({ideals.flip(step.ideal, group), group, -1});
      for (const int group : open)
        if (group > step.added) next.push_back({ideals.flip(step.ideal, group), step.taken, group});
    }
    frontier = std::move(next);
  }
  return true;
}

// Moves the cuts of the best split of a family, all of them at once, by ever more groups.
void search_nearby(LoadProgress& progress, Ideals& ideals, std::int64_t most_ideals) {
  constexpr int kMostFlips = 6;
  for (int flips = 2; flips <= kMostFlips && progress.best && progress.lower_ns < progress.best->load_ns; ++flips) {
    for (bool better = true; better;) {
      const auto split = LoadSearch(progress.problem, progress.bounds, ideals, progress.work).least_load(progress.best->load_ns);
      if (!split) return;
      const bool all_added = add_neighbours(ideals, split->ideals, flips, most_ideals);
      ideals.sort();
      LoadSearch wider(progress.problem, progress.bounds, ideals, progress.work);
      const auto moved = all_added ? wider.least_load(progress.best->load_ns - 1) : std::nullopt;
      better = moved.has_value();
      if (better) keep_split(progress, ideals, *moved);
      if (!all_added || progress.work.ended) return;
    }
  }
}

// Finds the best split again, with as few copies as possible between as many parts.
void tidy(LoadProgress& progress, const Ideals& ideals) {
  if (progress.work.ended) return;
  LoadProblem problem = progress.problem;
  problem.hosts = static_cast<int>(std::ranges::count_if(progress.best->parts, &LoadPart::on_host));
  problem.devices = static_cast<int>(progress.best->parts.size()) - problem.hosts;
  const auto split = LoadSearch(problem, progress.bounds, ideals, progress.work).fewest_copies(progress.best->load_ns);
  if (split) keep_split(progress, ideals, *split);
}

}  // namespace

double LoadPartition::gap() const {
  return gap_to(static_cast<double>(lower_bound_ns), static_cast<double>(load_ns));
}

LoadPartition least_max_load(const profiler::PlacementGraph& graph, const LoadLimits& limits) {
  LoadProgress progress(graph);
  progress.work.most_pairs = std::numeric_limits<std::int64_t>::max();
  Ideals some = ideals_of_orders(progress.problem);
  check_memory(graph, progress.problem, some);
  search_family(progress, some, false);
  progress.work = {limits.pairs, 0, limits.stop, false};

  const std::int64_t most = std::min(limits.ideals, most_ideals(progress.problem));
  Ideals all(progress.problem);
  const bool complete = all.add_all(most, limits.stop);
  Ideals& family = complete ? all : some;
  if (complete) {
    all.sort();
    search_family(progress, all, true);
  } else {
    search_nearby(progress, some, most);
  }
  if (!progress.best) refuse_infeasible(graph, complete && !progress.work.ended);
  tidy(progress, family);
  LoadPartition result = *std::move(progress.best);
  result.lower_bound_ns = std::min(progress.lower_ns, result.load_ns);
  result.ideals = family.size();
  result.pairs = progress.work.pairs;
  return result;
}

}  // namespace mptune::planner
