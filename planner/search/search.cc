#include "mptune/planner/search/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <queue>

#include "mptune/planner/schedule/schedule.h"
#include "mptune/planner/search/choices.h"
#include "mptune/planner/search/evaluator.h"
#include "mptune/profiler/trace/error.h"

namespace mptune {
namespace {

// What a search may hold before it says what it left out.
constexpr std::int64_t kMostNodes = 400'000;
constexpr int kSeedSteps = 40;

constexpr const char* kTooSlow = "its lower bound is above the plans that are kept";
constexpr const char* kNotSearched = "not reached within the limit of the search, its lower bound is among the largest";

std::int64_t completions(int layers, int stages) {
  double count = 1;
  for (int i = 1; i < stages; ++i) count = count * (layers - stages + i) / i;
  return count > 1e15 ? std::int64_t{1'000'000'000'000'000} : std::llround(count);
}

// The first cuts of a pipeline; complete with one cut less than stages.
struct Node {
  std::int64_t bound_ns = 0;
  std::size_t family = 0;
  std::vector<int> cuts;
};

// Smallest bound first; of equal ones the deepest, then the order of the cuts: nothing depends on chance.
bool later(const Node& a, const Node& b) {
  if (a.bound_ns != b.bound_ns) return a.bound_ns > b.bound_ns;
  if (a.cuts.size() != b.cuts.size()) return a.cuts.size() < b.cuts.size();
  if (a.family != b.family) return a.family > b.family;
  return a.cuts > b.cuts;
}

class Searcher {
 public:
  Searcher(const SearchSpace& space, const CostModel& cost, const std::vector<std::int64_t>& caps, int keep)
      : space_(space), cost_(cost), caps_(caps), choices_(space, cost, caps), evaluator_(cost, space.recompute.empty(), keep) {}

  Evaluator& evaluator() { return evaluator_; }

  void search_one_stage() {
    if (!choices_.wanted_stages(1)) return;
    const int replicas = static_cast<int>(space_.devices.size());
    if (space_.replicas.empty() || replicas == 1) search_one_device();
    if (replicas < 2) return;
    for (const int m : choices_.counts()) {
      // Counts that the user gave are counts of the whole batch; ours are counts per replica.
      const std::int64_t whole = space_.microbatch_counts.empty() ? std::int64_t{m} * replicas : m;
      if (whole <= space_.batch && whole % replicas == 0)
        try_one_stage(RankedAs::data_parallel, space_.devices, static_cast<int>(whole), caps_);
    }
  }

  void search_pipelines(RankedAs kind) {
    const std::vector<Family> families = choices_.pipelines();
    if (!space_.cuts.empty()) {
      try_given_cuts(kind, families);
      return;
    }
    for (std::size_t f = 0; f < families.size(); ++f) seed(kind, families, f);
    best_first(kind, families);
  }

 private:
  void search_one_device() {
    for (const int d : choices_.distinct_devices()) {
      const auto at = static_cast<std::size_t>(d);
      for (const int m : choices_.counts()) try_one_stage(RankedAs::one_device, {space_.devices[at]}, m, {caps_[at]});
    }
    for (const std::string& machine : space_.whole_machine) {
      for (const int m : choices_.counts()) try_one_stage(RankedAs::all_cores, {machine}, m, {space_.whole_machine_memory_bytes});
    }
  }

  void try_one_stage(RankedAs kind, const std::vector<std::string>& devices, int m, const std::vector<std::int64_t>& caps) {
    Plan plan;
    plan.devices = devices;
    plan.microbatch_sizes = split_evenly(space_.batch, m);
    Stage stage{0, cost_.layers(), {}, {}};
    for (std::size_t d = 0; d < devices.size(); ++d) stage.devices.push_back(static_cast<int>(d));
    plan.stages.push_back(stage);
    choices_.set_recompute(plan);
    make_schedule(plan, m == 1 ? "naive" : "1f1b");
    evaluator_.evaluate(kind, std::move(plan), caps);
  }

  // Simulates the family's plans with these cuts; the fastest time, or infinity where none fits.
  double evaluate_cuts(RankedAs kind, const Family& family, std::size_t family_index, const std::vector<int>& cuts) {
    std::vector<int> key = cuts;
    key.push_back(static_cast<int>(family_index));
    if (const auto known = evaluated_.find(key); known != evaluated_.end()) return known->second;
    Plan plan;
    std::vector<std::int64_t> caps;
    plan.microbatch_sizes = family.sizes;
    for (std::size_t s = 0; s <= cuts.size(); ++s) {
      Stage stage{s == 0 ? 0 : cuts[s - 1], s == cuts.size() ? cost_.layers() : cuts[s], {}, {}};
      for (const int d : family.devices[s]) {
        stage.devices.push_back(static_cast<int>(plan.devices.size()));
        plan.devices.push_back(space_.devices[static_cast<std::size_t>(d)]);
        caps.push_back(caps_[static_cast<std::size_t>(d)]);
      }
      plan.stages.push_back(std::move(stage));
    }
    choices_.set_recompute(plan);
    double fastest = std::numeric_limits<double>::infinity();
    for (const std::string& schedule : choices_.schedules_for(plan.num_microbatches())) {
      make_schedule(plan, schedule);
      fastest = std::min(fastest, evaluator_.evaluate(kind, plan, caps));
    }
    return evaluated_[key] = fastest;
  }

  void try_given_cuts(RankedAs kind, const std::vector<Family>& families) {
    for (const std::vector<int>& cuts : space_.cuts) {
      for (std::size_t f = 0; f < families.size(); ++f) {
        if (cuts.size() + 1 == families[f].devices.size()) evaluate_cuts(kind, families[f], f, cuts);
      }
    }
  }

  // A balanced partition and its neighbours by hill climbing: good plans early let the bound leave out most of the space.
  void seed(RankedAs kind, const std::vector<Family>& families, std::size_t f) {
    const Family& family = families[f];
    std::vector<int> cuts = balanced(family);
    double now = evaluate_cuts(kind, family, f, cuts);
    for (int step = 0; step < kSeedSteps; ++step) {
      std::vector<int> best = cuts;
      double best_s = now;
      for (std::size_t c = 0; c < cuts.size(); ++c) {
        for (const int move : {-1, 1}) {
          std::vector<int> moved = cuts;
          moved[c] += move;
          if (moved[c] <= (c == 0 ? 0 : cuts[c - 1]) || moved[c] >= (c + 1 == cuts.size() ? cost_.layers() : cuts[c + 1])) continue;
          const double moved_s = evaluate_cuts(kind, family, f, moved);
          if (moved_s >= best_s) continue;
          best_s = moved_s;
          best = moved;
        }
      }
      if (best == cuts) return;
      cuts = best;
      now = best_s;
    }
  }

  // Every stage gets layers for as many devices as it has.
  [[nodiscard]] static std::vector<int> balanced(const Family& family) {
    const PartitionBound& bound = family.bound;
    std::size_t devices = 0;
    for (const std::vector<int>& stage : family.devices) devices += stage.size();
    const double share = bound.load_ns(0, 0, bound.layers()) / static_cast<double>(devices);
    std::vector<int> cuts;
    std::size_t before = 0;
    for (int s = 1; s < bound.stages(); ++s) {
      before += family.devices[static_cast<std::size_t>(s) - 1].size();
      int cut = cuts.empty() ? 1 : cuts.back() + 1;
      while (cut < bound.layers() - (bound.stages() - s) && bound.load_ns(0, 0, cut) < share * static_cast<double>(before)) ++cut;
      cuts.push_back(cut);
    }
    return cuts;
  }

  void best_first(RankedAs kind, const std::vector<Family>& families) {
    std::priority_queue<Node, std::vector<Node>, decltype(&later)> open(&later);
    for (std::size_t f = 0; f < families.size(); ++f) open.push({families[f].bound.step_ns({}), f, {}});
    std::int64_t nodes = 0;
    while (!open.empty()) {
      const Node node = open.top();
      const Family& family = families[node.family];
      const bool slow = static_cast<double>(node.bound_ns) * 1e-9 > evaluator_.ranking().threshold(kind);
      if (slow || nodes > kMostNodes || evaluator_.actions() > space_.most_actions) break;
      open.pop();
      if (static_cast<int>(node.cuts.size()) + 1 == family.bound.stages()) {
        evaluate_cuts(kind, family, node.family, node.cuts);
      } else {
        nodes += expand(kind, family, node, open);
      }
    }
    for (; !open.empty(); open.pop()) leave_out(kind, families[open.top().family], open.top());
  }

  template <typename Queue>
  std::int64_t expand(RankedAs kind, const Family& family, const Node& node, Queue& open) {
    const int stage = static_cast<int>(node.cuts.size());
    const int first = node.cuts.empty() ? 0 : node.cuts.back();
    const int last = cost_.layers() - (family.bound.stages() - stage - 1);
    std::int64_t added = 0;
    for (int cut = first + 1; cut <= last; ++cut) {
      Node child{0, node.family, node.cuts};
      child.cuts.push_back(cut);
      if (too_large(family, stage, first, cut)) {
        evaluator_.reject(kTooLarge, plans_behind(family, child));
        continue;
      }
      child.bound_ns = std::max(node.bound_ns, family.bound.step_ns(child.cuts));
      if (static_cast<double>(child.bound_ns) * 1e-9 > evaluator_.ranking().threshold(kind)) {
        leave_out(kind, family, child);
        continue;
      }
      open.push(std::move(child));
      ++added;
    }
    return added;
  }

  // Only where it can't hide the smallest excess, which is reported when nothing fits.
  bool too_large(const Family& family, int stage, int first, int last) {
    const std::int64_t cap = caps_[static_cast<std::size_t>(family.devices[static_cast<std::size_t>(stage)].front())];
    if (cap <= 0) return false;
    const std::int64_t over = family.bound.bytes(stage, first, last) - cap;
    return over > 0 && !evaluator_.may_matter(over);
  }

  [[nodiscard]] std::int64_t plans_behind(const Family& family, const Node& node) const {
    const int first = node.cuts.empty() ? 0 : node.cuts.back();
    const int stages = family.bound.stages() - static_cast<int>(node.cuts.size());
    return completions(cost_.layers() - first, stages) *
           static_cast<std::int64_t>(choices_.schedules_for(static_cast<int>(family.sizes.size())).size());
  }

  void leave_out(RankedAs kind, const Family& family, const Node& node) {
    const double bound_s = static_cast<double>(node.bound_ns) * 1e-9;
    const bool slow = bound_s > evaluator_.ranking().threshold(kind);
    evaluator_.reject(slow ? kTooSlow : kNotSearched, plans_behind(family, node));
    if (!slow) evaluator_.lower_bound(bound_s);
  }

  const SearchSpace& space_;
  const CostModel& cost_;
  std::vector<std::int64_t> caps_;
  Choices choices_;
  Evaluator evaluator_;
  std::map<std::vector<int>, double> evaluated_;
};

std::vector<std::int64_t> caps_of(const SearchSpace& space) {
  std::vector<std::int64_t> caps = space.memory_bytes;
  caps.resize(space.devices.size(), 0);
  return caps;
}

void check(const SearchSpace& space, const CostModel& cost) {
  if (space.devices.empty()) throw Error("no devices to search for", "--devices", "name at least one");
  if (space.batch < 1) throw Error("the batch has no samples", "--batch", "use at least 1");
  if (!space.replicas.empty()) check_replicas(space.replicas, static_cast<int>(space.devices.size()));
  for (const std::vector<int>& cuts : space.cuts) {
    int before = 0;
    for (const int cut : cuts) {
      if (cut <= before || cut >= cost.layers())
        throw Error("cut " + std::to_string(cut) + " is out of range or out of order", "--cuts",
                    "list ascending layers from 1 to " + std::to_string(cost.layers() - 1));
      before = cut;
    }
  }
}

// Half of what the un-pipelined model needs on the first device.
std::int64_t half_of_one_device(const SearchSpace& space, const CostModel& cost) {
  PlanOptions options;
  options.devices = {space.devices.front()};
  options.batch = space.batch;
  options.layers = cost.layers();
  options.schedule = "naive";
  return cost.peak_bytes(make_plan(options)).front() / 2;
}

bool fits(const Candidate& candidate, std::int64_t bytes) {
  const std::vector<std::int64_t>& peaks = candidate.prediction.peak_bytes;
  return std::all_of(peaks.begin(), peaks.end(), [&](std::int64_t peak) { return peak <= bytes; });
}

// The fastest pipeline within half the memory, by a search of its own with halved caps unless the fastest of all is one already.
void add_half_memory(const SearchSpace& space, const CostModel& cost, std::int64_t half, Searcher& searcher) {
  const std::optional<Candidate>& pipeline = searcher.evaluator().ranking().best(RankedAs::pipeline);
  if (half <= 0 || (pipeline && fits(*pipeline, half))) return;
  std::vector<std::int64_t> caps = caps_of(space);
  for (std::int64_t& cap : caps) cap = cap > 0 ? std::min(cap, half) : half;
  Searcher within(space, cost, caps, 1);
  within.search_pipelines(RankedAs::pipeline);
  searcher.evaluator().result().simulated += within.evaluator().result().simulated;
  if (const auto& best = within.evaluator().ranking().best(RankedAs::pipeline))
    searcher.evaluator().ranking().set_best(RankedAs::half_memory, *best);
}

void add_places(std::int64_t half, SearchResult& result) {
  for (int i = 0; i < static_cast<int>(result.ranked.size()); ++i) {
    const Candidate& candidate = result.ranked[static_cast<std::size_t>(i)];
    if (candidate.plan.num_stages() < 2) continue;
    if (result.best_pipeline < 0) result.best_pipeline = i;
    if (result.best_half_memory < 0 && fits(candidate, half)) result.best_half_memory = i;
  }
}

}  // namespace

SearchResult search_plans(const SearchSpace& space, const CostModel& cost) {
  check(space, cost);
  const std::int64_t half = half_of_one_device(space, cost);
  Searcher searcher(space, cost, caps_of(space), space.keep);
  searcher.search_one_stage();
  searcher.search_pipelines(RankedAs::pipeline);
  add_half_memory(space, cost, half, searcher);
  SearchResult result = std::move(searcher.evaluator().result());
  result.ranked = searcher.evaluator().ranking().ranked();
  if (result.ranked.empty()) {
    if (result.smallest_excess_bytes == 0)
      throw Error("no plan answers to all the given choices", "stages, cuts, micro-batches, schedule, recomputation and replicas together",
                  "leave one of these options out");
    result.lower_bound_s = 0;
  } else {
    result.smallest_excess_bytes = 0;
    result.smallest_excess_device.clear();
  }
  add_places(half, result);
  return result;
}

}  // namespace mptune
