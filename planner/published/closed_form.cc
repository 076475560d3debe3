#include "planner/published/closed_form.h"

#include <algorithm>
#include <set>

#include "planner/partition/family.h"
#include "planner/partition/stage_memory.h"
#include "planner/published/chain_sweep.h"
#include "planner/schedule/schedule.h"
#include "planner/simulate/operations.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

// Sums over ranges of layers of one device at one micro-batch size, each in constant time.
class DeviceChain {
 public:
  DeviceChain(const CostModel& cost, int device, int samples, bool busy) : action_ns_(to_ns(cost.action_seconds(device))) {
    LayerTimes sum;
    for (int layer = 0; layer < cost.layers(); ++layer) {
      const LayerTimes times = cost.layer(device, layer, samples);
      sum.forward_s += busy ? times.forward_busy_s : times.forward_s;
      sum.backward_s += busy ? times.backward_busy_s : times.backward_s;
      forward_ns_.push_back(to_ns(sum.forward_s));
      backward_ns_.push_back(to_ns(sum.backward_s));
    }
  }

  // Returns forward and backward of one micro-batch. A recomputed stage runs its forward twice, as part of the same backward action.
  [[nodiscard]] std::int64_t turn_ns(int first, int last, bool recomputed) const {
    const std::int64_t forward = between(forward_ns_, first, last);
    return 2 * action_ns_ + forward + between(backward_ns_, first, last) + (recomputed ? forward : 0);
  }

 private:
  static std::int64_t between(const std::vector<std::int64_t>& sums, int first, int last) {
    return sums[as_index(last)] - sums[as_index(first)];
  }

  std::int64_t action_ns_;
  std::vector<std::int64_t> forward_ns_ = {0};  // sums over the layers before each one
  std::vector<std::int64_t> backward_ns_ = {0};
};

// A straight pipeline of stages on devices of their own.
class Straight {
 public:
  Straight(const CostModel& cost, const std::vector<int>& devices, const std::vector<int>& sizes)
      : cost_(cost), devices_(devices), microbatches_(static_cast<int>(sizes.size())) {
    samples_ = *std::max_element(sizes.begin(), sizes.end());
    for (const int device : devices) chains_.emplace_back(cost, device, samples_, devices.size() > 1);
    for (int layer = 0; layer <= cost.layers(); ++layer) {
      outputs_.push_back(cost.boundary_bytes(layer, samples_, false));
      gradients_.push_back(cost.boundary_bytes(layer, samples_, true));
    }
  }

  // The copies of a stage's input and of its gradient count as the stage's own.
  [[nodiscard]] TurnCost cost(int stage, int first, int last, bool recomputed) const {
    const std::int64_t turn = chain(stage).turn_ns(first, last, recomputed);
    if (stage == 0) return {turn, turn, 0};
    const int device = at(devices_, stage);
    const int before = at(devices_, stage - 1);
    const std::int64_t output = to_ns(cost_.copy_seconds(before, device, at(outputs_, first)));
    const std::int64_t gradient = to_ns(cost_.copy_seconds(device, before, at(gradients_, first)));
    return {turn + output + gradient, std::max({turn, output, gradient}),
            std::int64_t{microbatches_} * (at(outputs_, first) + at(gradients_, first))};
  }

  [[nodiscard]] int microbatches() const { return microbatches_; }

 private:
  template <class Value>
  static const Value& at(const std::vector<Value>& values, int index) {
    return values[as_index(index)];
  }
  [[nodiscard]] const DeviceChain& chain(int stage) const { return at(chains_, stage); }

  const CostModel& cost_;
  std::vector<int> devices_;  // indices in the profile
  int microbatches_;
  int samples_ = 0;
  std::vector<DeviceChain> chains_;      // per stage
  std::vector<std::int64_t> outputs_;    // bytes that cross the cut before each layer
  std::vector<std::int64_t> gradients_;  // bytes that come back
};

void check_straight(const PartitionProblem& problem) {
  const auto refuse = [](const std::string& what, const std::string& remedy) { throw Error(what, "closed form", remedy); };
  std::set<int> used;
  for (const std::vector<int>& devices : problem.stages)
    if (devices.size() != 1 || !used.insert(devices.front()).second)
      refuse("the closed form knows one stage per device only", "leave replicas and virtual stages out, or minimise the simulated step");
  if (problem.schedule != "1f1b") refuse("the closed form does not know schedule " + problem.schedule, "use 1f1b");
  if (!problem.recomputed.empty()) refuse("the closed form recomputes stages for memory only", "leave `recompute` out");
}

std::vector<int> profile_devices(const PartitionProblem& problem, const CostModel& cost) {
  std::vector<int> devices;
  for (const std::vector<int>& stage : problem.stages) devices.push_back(cost.device_index(problem.devices[as_index(stage.front())]));
  return devices;
}

class ClosedForm {
 public:
  ClosedForm(const PartitionProblem& problem, const CostModel& cost)
      : problem_(problem),
        cost_(cost),
        family_(problem, cost),
        memory_(family_, cost),
        straight_(cost, profile_devices(problem, cost), problem.microbatch_sizes) {
    chain_.layers = cost.layers();
    chain_.stages = static_cast<int>(problem.stages.size());
    chain_.repeats = straight_.microbatches() - 1;
    chain_.stop = problem.stop;
    if (problem.longest_ns < std::numeric_limits<std::int64_t>::max()) chain_.below_ns = problem.longest_ns + 1;
    if (chain_.stages > chain_.layers)
      throw Error(std::to_string(chain_.stages) + " stages, but the model has " + std::to_string(chain_.layers) + " layers", "closed form",
                  "use at most as many stages as layers");
    check_chain_memory(chain_.layers, chain_.stages);
  }

  PartitionResult run() {
    find_fitting();
    chain_.bound = [this](int stage, int first, int last) { return fitting(stage, first, last); };
    chain_.exact = [this](int stage, int first, int last, std::int64_t longest_ns) {
      const std::optional<TurnCost> cost = fitting(stage, first, last);
      return cost && cost->largest_ns <= longest_ns ? cost : std::nullopt;
    };
    const ChainCuts found = best_chain_cuts(chain_);
    PartitionResult result;
    result.complete = found.complete;
    result.nodes = found.sweeps;
    result.lower_bound_ns = found.lower_bound_ns == ChainCuts::kNoCuts ? PartitionResult::kNoPlan : found.lower_bound_ns;
    if (found.found) result.best.push_back(rated(found));
    if (found.lower_bound_ns == ChainCuts::kNoCuts) find_smallest_excess(result);
    return result;
  }

 private:
  enum class Fits : char { no, recomputed, yes };

  void find_fitting() {
    const auto n = as_index(chain_.layers);
    fits_.assign(as_index(chain_.stages) * n * n, Fits::no);
    for (int stage = 0; stage < chain_.stages; ++stage) {
      for (int first = 0; first < chain_.layers; ++first) {
        if (first > 0 && !cost_.may_cut(first)) continue;
        for (int last = first + 1; last <= chain_.layers; ++last) fits_[place(stage, first, last)] = fits(stage, first, last);
      }
    }
  }

  [[nodiscard]] std::size_t place(int stage, int first, int last) const {
    const auto n = as_index(chain_.layers);
    return (as_index(stage) * n + as_index(first)) * n + as_index(last) - 1;
  }

  [[nodiscard]] Fits fits(int stage, int first, int last) {
    if (family_.cap(problem_.stages[as_index(stage)].front()) <= 0) return Fits::yes;
    if (memory_.least_excess(stage, first, last) > 0) return Fits::no;
    const StageFit& need = memory_.need(stage, first, last);
    if (need.excess_bytes > 0) return Fits::no;
    return need.recomputed ? Fits::recomputed : Fits::yes;
  }

  // Runs the same sweep with bytes over the cap in the place of time, and so finds the least largest excess.
  void find_smallest_excess(PartitionResult& result) {
    chain_.repeats = 1;
    chain_.below_ns = std::numeric_limits<std::int64_t>::max();
    chain_.bound = [this](int stage, int first, int last) -> std::optional<TurnCost> {
      if (first > 0 && !cost_.may_cut(first)) return std::nullopt;
      return TurnCost{0, excess_bytes(stage, first, last), 0};
    };
    chain_.exact = [this](int stage, int first, int last, std::int64_t most) {
      const std::optional<TurnCost> excess = chain_.bound(stage, first, last);
      return excess && excess->largest_ns <= most ? excess : std::nullopt;
    };
    const ChainCuts found = best_chain_cuts(chain_);
    result.smallest_excess_bytes = found.found ? found.step_ns : 0;
    for (int s = 0; found.found && s < chain_.stages; ++s) {
      const auto [first, last] = range(found.cuts, s);
      if (excess_bytes(s, first, last) == found.step_ns) result.smallest_excess_device = problem_.stages[as_index(s)].front();
    }
  }

  [[nodiscard]] std::int64_t excess_bytes(int stage, int first, int last) {
    return std::max<std::int64_t>(0, memory_.need(stage, first, last).excess_bytes);
  }

  [[nodiscard]] std::pair<int, int> range(const std::vector<int>& cuts, int stage) const {
    const auto s = as_index(stage);
    return {stage == 0 ? 0 : cuts[s - 1], s == cuts.size() ? chain_.layers : cuts[s]};
  }

  [[nodiscard]] std::optional<TurnCost> fitting(int stage, int first, int last) const {
    const Fits fits = fits_[place(stage, first, last)];
    if (fits == Fits::no) return std::nullopt;
    return straight_.cost(stage, first, last, fits == Fits::recomputed);
  }

  PartitionedPlan rated(const ChainCuts& found) const {
    std::vector<int> recomputed;
    for (int s = 0; s < chain_.stages; ++s) {
      const auto [first, last] = range(found.cuts, s);
      if (fits_[place(s, first, last)] == Fits::recomputed) recomputed.push_back(s);
    }
    PartitionedPlan best;
    best.plan = family_.plan(found.cuts, recomputed);
    best.step_ns = found.step_ns;
    for (std::size_t s = 0; s < found.cuts.size(); ++s) best.copied_bytes += family_.copied_bytes(static_cast<int>(s) + 1, found.cuts[s]);
    const std::vector<std::int64_t> peaks = cost_.peak_bytes(best.plan);
    best.peak_bytes = *std::max_element(peaks.begin(), peaks.end());
    return best;
  }

  const PartitionProblem& problem_;
  const CostModel& cost_;
  Family family_;
  StageMemory memory_;
  Straight straight_;
  ChainProblem chain_;
  std::vector<Fits> fits_;  // per stage and range
};

}  // namespace

std::int64_t closed_form_ns(const Plan& plan, const CostModel& cost) {
  std::vector<int> devices;
  for (const Stage& stage : plan.stages) devices.push_back(cost.device_index(plan.devices[as_index(stage.devices.front())]));
  const Straight straight(cost, devices, plan.microbatch_sizes);
  std::int64_t sum = 0;
  std::int64_t largest = 0;
  for (int s = 0; s < plan.num_stages(); ++s) {
    const Stage& stage = plan.stages[as_index(s)];
    const TurnCost of_stage = straight.cost(s, stage.first_layer, stage.last_layer, stage.recompute.mode == Recompute::Mode::all);
    sum += of_stage.sum_ns;
    largest = std::max(largest, of_stage.largest_ns);
  }
  return sum + (plan.num_microbatches() - 1) * largest;
}

PartitionResult closed_form_partition(const PartitionProblem& problem, const CostModel& cost) {
  check_straight(problem);
  return ClosedForm(problem, cost).run();
}

}  // namespace mptune::planner
