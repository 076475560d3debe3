#include "planner/search/graph/graph_states.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "planner/schedule/greedy.h"
#include "planner/schedule/timing.h"
#include "planner/simulate/operations.h"
#include "planner/simulate/schedule_costs.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

// Returns the devices that the state uses, ascending.
std::vector<int> used_by(const GraphState& state) {
  std::vector<int> used = state.devices;
  std::ranges::sort(used);
  used.erase(std::unique(used.begin(), used.end()), used.end());
  return used;
}

std::int64_t work_ns(const CostModel& cost, int device, int first, int last, int samples) {
  std::int64_t ns = 0;
  for (int layer = first; layer < last; ++layer) {
    const LayerTimes times = cost.layer(device, layer, samples);
    ns += to_ns(times.forward_s) + to_ns(times.backward_s);
  }
  return ns;
}

class Neighbours {
 public:
  Neighbours(const GraphState& state, const CostModel& cost) : state_(state), cost_(cost) {}

  void move_cuts() {
    for (std::size_t k = 0; k < state_.cuts.size(); ++k)
      for (int distance = 1; distance < cost_.layers(); distance *= 2)
        for (const int by : {-distance, distance}) {
          GraphState other = state_;
          other.cuts[k] += by;
          add(std::move(other));
        }
  }

  void change_devices(int devices) {
    for (std::size_t s = 0; s < state_.devices.size(); ++s)
      for (int device = 0; device < devices; ++device) {
        GraphState other = state_;
        other.devices[s] = device;
        add(std::move(other));
      }
    for (std::size_t s = 0; s < state_.devices.size(); ++s)
      for (std::size_t t = s + 1; t < state_.devices.size(); ++t) {
        GraphState other = state_;
        std::swap(other.devices[s], other.devices[t]);
        add(std::move(other));
      }
  }

  void divide(int devices) {
    for (std::size_t s = 0; s < state_.devices.size(); ++s) {
      const int first = s == 0 ? 0 : state_.cuts[s - 1], last = s < state_.cuts.size() ? state_.cuts[s] : cost_.layers();
      for (const int cut : {first + (last - first) / 4, first + (last - first) / 2, first + 3 * (last - first) / 4})
        for (int device = 0; device < devices; ++device)
          for (const std::size_t half : {s, s + 1}) {
            GraphState other = state_;
            other.cuts.insert(other.cuts.begin() + static_cast<std::ptrdiff_t>(s), cut);
            other.devices.insert(other.devices.begin() + static_cast<std::ptrdiff_t>(s), state_.devices[s]);
            other.devices[half] = device;
            add(std::move(other));
          }
    }
  }

  void join() {
    for (std::size_t k = 0; k < state_.cuts.size(); ++k)
      for (const std::size_t gone : {k, k + 1}) {
        GraphState other = state_;
        other.cuts.erase(other.cuts.begin() + static_cast<std::ptrdiff_t>(k));
        other.devices.erase(other.devices.begin() + static_cast<std::ptrdiff_t>(gone));
        add(std::move(other));
      }
  }

  void change_microbatches(const std::vector<int>& counts) {
    const auto at = std::ranges::find(counts, state_.microbatches);
    if (at == counts.end()) return;
    const auto add_count = [&](int count) {
      GraphState other = state_;
      other.microbatches = count;
      add(std::move(other));
    };
    if (at != counts.begin()) add_count(*(at - 1));
    if (at + 1 != counts.end()) add_count(*(at + 1));
  }

  std::vector<GraphState> take() {
    std::ranges::sort(found_);
    found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
    return std::move(found_);
  }

 private:
  void add(GraphState state) {
    int before = 0;
    for (const int cut : state.cuts) {
      if (cut <= before || cut >= cost_.layers() || !cost_.may_cut(cut)) return;
      before = cut;
    }
    if (state != state_ && !state.cuts.empty()) found_.push_back(std::move(state));
  }

  const GraphState& state_;
  const CostModel& cost_;
  std::vector<GraphState> found_;
};

}  // namespace

Plan plan_of(const GraphState& state, const std::vector<std::string>& devices, int batch, int layers) {
  const std::vector<int> used = used_by(state);
  Plan plan;
  for (const int device : used) plan.devices.push_back(devices[as_index(device)]);
  plan.microbatch_sizes = split_evenly(batch, state.microbatches);
  for (std::size_t s = 0; s < state.devices.size(); ++s) {
    const int device = static_cast<int>(std::ranges::find(used, state.devices[s]) - used.begin());
    plan.stages.push_back({s == 0 ? 0 : state.cuts[s - 1], s < state.cuts.size() ? state.cuts[s] : layers, {device}, {}});
  }
  return plan;
}

std::optional<RatedState> rated(const GraphState& state, const std::vector<std::string>& devices, int batch, const CostModel& cost,
                                const std::vector<std::int64_t>& caps, bool may_split) {
  const Plan plan = plan_of(state, devices, batch, cost.layers());
  std::vector<std::int64_t> own_caps;
  for (const int device : used_by(state)) own_caps.push_back(caps[as_index(device)]);
  const ScheduleCosts costs = schedule_costs(plan, cost, own_caps);
  ScheduleCosts chain = costs;
  chain.links.clear();
  const Layout layout(plan);
  ScheduleReplay replay(layout, costs), as_chain(layout, chain);
  GreedyPolicy policy;
  policy.limit = costs.free_bytes;
  policy.limit.resize(plan.devices.size(), ScheduleCosts::kNoLimit);
  std::optional<RatedState> best;
  for (const bool split : {false, true}) {
    policy.split = split;
    if (split && !may_split) continue;
    const Rows rows = greedy_rows(layout, costs, policy);
    if (rows.empty() || as_chain.run(rows) < 0) continue;
    const std::int64_t step_ns = replay.run(rows);
    if (step_ns >= 0 && (!best || step_ns < best->step_ns)) best = RatedState{state, step_ns};
  }
  return best;
}

std::vector<GraphState> neighbours_of(const GraphState& state, const CostModel& cost, int devices, const std::vector<int>& counts) {
  Neighbours neighbours(state, cost);
  neighbours.move_cuts();
  neighbours.change_devices(devices);
  neighbours.divide(devices);
  neighbours.join();
  neighbours.change_microbatches(counts);
  return neighbours.take();
}

std::vector<int> branch_cuts(const CostModel& cost) {
  std::vector<std::vector<int>> makers(as_index(cost.layers()));
  for (const ProfileTensor& tensor : cost.tensors().all())
    for (const int reader : tensor.readers) makers[as_index(reader)].push_back(tensor.maker);
  std::vector<int> cuts;
  for (int layer = 1; layer < cost.layers(); ++layer) {
    const std::vector<int>& of = makers[as_index(layer)];
    const bool begins = std::ranges::count(of, layer - 1) == 0;
    const bool joins = std::ranges::any_of(of, [&](int maker) { return maker != of.front(); });
    if (cost.may_cut(layer) && (begins || joins)) cuts.push_back(layer);
  }
  return cuts;
}

GraphState spread_out(const std::vector<int>& cuts, int microbatches, int samples, const CostModel& cost, const std::vector<int>& devices) {
  GraphState state{cuts, std::vector<int>(cuts.size() + 1, 0), microbatches};
  std::vector<std::size_t> order(state.devices.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto work = [&](std::size_t s, int device) {
    return work_ns(cost, device, s == 0 ? 0 : cuts[s - 1], s < cuts.size() ? cuts[s] : cost.layers(), samples);
  };
  std::ranges::stable_sort(order, std::greater{}, [&](std::size_t s) { return work(s, devices.front()); });
  std::vector<std::int64_t> load(devices.size(), 0);
  for (const std::size_t s : order) {
    const auto least = std::ranges::min_element(load);
    const auto device = static_cast<std::size_t>(least - load.begin());
    state.devices[s] = static_cast<int>(device);
    *least += work(s, devices[device]);
  }
  return state;
}

}  // namespace mptune::planner
