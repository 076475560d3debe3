#include "planner/search/least_recompute.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "planner/schedule/schedule.h"
#include "planner/simulate/simulate.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

// Most sets of layers that are stored; of more, every second one is dropped.
constexpr std::size_t kMostSets = 1024;

struct Item {
  int stage = 0;
  int layer = 0;
  double seconds = 0;  // of its forward
  double freed = 0;    // bytes that need not be saved
  double input = 0;    // bytes that are saved besides where a piece begins with it: computed again, or saved behind one that is
  bool first = false;  // of its stage
};

// A set of layers, as the last of them and the set of the others.
struct Set {
  double seconds = 0;
  double freed = 0;
  int others = -1;  // index among all sets, -1: none
  int item = -1;
};

bool takes_less(const Set& a, const Set& b) {
  return a.seconds != b.seconds ? a.seconds < b.seconds : a.freed > b.freed;
}

// The Pareto front of sets of layers of one device, by time and bytes saved.
class Sets {
 public:
  explicit Sets(const std::vector<Item>& items) : items_(items) {
    std::vector<int> without = {add({})};  // that do not hold the last item
    std::vector<int> with;
    for (int i = 0; i < static_cast<int>(items.size()); ++i) {
      const Item& item = items[as_index(i)];
      if (item.first) without = best(without, std::exchange(with, {}));
      std::vector<int> longer;
      for (const int set : without) longer.push_back(extended(set, i, item.first ? 0 : item.input));
      std::vector<int> grown;
      for (const int set : with) grown.push_back(extended(set, i, 0));
      std::vector<int> ended;
      for (const int set : with) ended.push_back(keeping(set, item.input));
      without = best(without, ended);
      with = best(longer, grown);
    }
    sets_ = best(without, with);
  }

  [[nodiscard]] int size() const { return static_cast<int>(sets_.size()); }

  // The plan that recomputes the layers of a set and no others of this device.
  [[nodiscard]] Plan apply(Plan plan, int set) const {
    for (const Item& item : items_) plan.stages[as_index(item.stage)].recompute = {};
    for (int at = sets_[as_index(set)]; all_[as_index(at)].item >= 0; at = all_[as_index(at)].others) {
      const Item& item = items_[as_index(all_[as_index(at)].item)];
      Recompute& recompute = plan.stages[as_index(item.stage)].recompute;
      recompute.mode = Recompute::Mode::some;
      recompute.layers.insert(recompute.layers.begin(), item.layer);
    }
    for (Stage& stage : plan.stages)
      if (static_cast<int>(stage.recompute.layers.size()) == stage.last_layer - stage.first_layer)
        stage.recompute = {Recompute::Mode::all, {}, {}};
    return plan;
  }

 private:
  int add(const Set& set) {
    all_.push_back(set);
    return static_cast<int>(all_.size()) - 1;
  }

  int extended(int set, int i, double input) {
    const Item& item = items_[as_index(i)];
    const Set& others = all_[as_index(set)];
    return add({others.seconds + item.seconds, others.freed + item.freed - input, set, i});
  }

  // The same set, with these bytes saved as well.
  int keeping(int set, double bytes) {
    Set same = all_[as_index(set)];
    same.freed -= bytes;
    return add(same);
  }

  std::vector<int> best(std::vector<int> some, const std::vector<int>& more) const {
    const auto at = [this](int set) -> const Set& { return all_[as_index(set)]; };
    some.insert(some.end(), more.begin(), more.end());
    std::stable_sort(some.begin(), some.end(), [&](int a, int b) { return takes_less(at(a), at(b)); });
    std::vector<int> left;
    for (const int set : some)
      if (left.empty() || at(set).freed > at(left.back()).freed) left.push_back(set);
    while (left.size() > kMostSets) {
      std::vector<int> half;
      for (std::size_t i = left.size() % 2 == 0 ? 1 : 0; i < left.size(); i += 2) half.push_back(left[i]);
      left = half;
    }
    return left;
  }

  const std::vector<Item>& items_;
  std::vector<Set> all_;
  std::vector<int> sets_;
};

std::vector<Item> items_of(const Plan& plan, int device, const CostModel& cost) {
  const int index = cost.device_index(plan.devices[as_index(device)]);
  const int samples = *std::max_element(plan.microbatch_sizes.begin(), plan.microbatch_sizes.end());
  std::vector<Item> items;
  for (int s = 0; s < plan.num_stages(); ++s) {
    const Stage& stage = plan.stages[as_index(s)];
    if (std::find(stage.devices.begin(), stage.devices.end(), device) == stage.devices.end()) continue;
    const double flights = most_in_flight(plan, s);
    for (int layer = stage.first_layer; layer < stage.last_layer; ++layer)
      items.push_back({s, layer, cost.layer(index, layer, samples).forward_s,
                       flights * static_cast<double>(cost.saved_activation_bytes(index, layer, layer + 1, samples)),
                       flights * static_cast<double>(cost.boundary_bytes(layer, samples, false)), layer == stage.first_layer});
  }
  return items;
}

Plan recomputing_last(Plan plan, int s, int layers) {
  Stage& stage = plan.stages[as_index(s)];
  stage.recompute = {};
  if (stage.last_layer - layers == stage.first_layer) {
    stage.recompute.mode = Recompute::Mode::all;
    return plan;
  }
  stage.recompute.mode = Recompute::Mode::some;
  for (int layer = stage.last_layer - layers; layer < stage.last_layer; ++layer) stage.recompute.layers.push_back(layer);
  return plan;
}

// The last layers of one stage are computed again while the device waits for the gradient (first_recomputed_early): they may cost less
// time than their forward takes. The fewest that fit, of the stage where that is fastest.
std::optional<Plan> fitted_behind(const Plan& plan, int device, std::int64_t cap, const CostModel& cost) {
  std::optional<Plan> best;
  double best_s = 0;
  for (int s = 0; s < plan.num_stages(); ++s) {
    const std::vector<int>& devices = plan.stages[as_index(s)].devices;
    if (std::ranges::find(devices, device) == devices.end()) continue;
    const auto fits = [&](int layers) { return cost.peak_bytes(recomputing_last(plan, s, layers), device) <= cap; };
    const int all = plan.stages[as_index(s)].last_layer - plan.stages[as_index(s)].first_layer;
    if (!fits(all)) continue;
    int low = 1, high = all;
    while (low < high) {
      const int middle = low + (high - low) / 2;
      fits(middle) ? high = middle : low = middle + 1;
    }
    Plan some = recomputing_last(plan, s, high);
    const double step_s = predict(some, cost).step_s;
    if (best && step_s >= best_s) continue;
    best = std::move(some);
    best_s = step_s;
  }
  return best;
}

// The bytes freed grow with the time, so the first set that fits is found by bisection.
Plan fitted(const Plan& plan, int device, std::int64_t cap, const CostModel& cost) {
  const std::vector<Item> items = items_of(plan, device, cost);
  const Sets sets(items);
  const auto fits = [&](int set) { return cost.peak_bytes(sets.apply(plan, set), device) <= cap; };
  int low = 0;
  int high = sets.size() - 1;
  if (!fits(high)) {
    Plan whole = plan;
    for (const Item& item : items) whole.stages[as_index(item.stage)].recompute = {Recompute::Mode::all, {}, {}};
    return whole;
  }
  while (low < high) {
    const int middle = low + (high - low) / 2;
    fits(middle) ? high = middle : low = middle + 1;
  }
  Plan least = sets.apply(plan, high);
  const std::optional<Plan> behind = fitted_behind(plan, device, cap, cost);
  return behind && predict(*behind, cost).step_s < predict(least, cost).step_s ? *behind : least;
}

}  // namespace

Plan with_least_recompute(Plan plan, const std::vector<std::int64_t>& caps, const CostModel& cost) {
  const auto over = [&](const std::vector<std::int64_t>& peaks, std::size_t d) { return caps[d] > 0 && peaks[d] > caps[d]; };
  for (std::size_t d = 0; d < plan.devices.size(); ++d)
    if (over(cost.peak_bytes(plan), d)) plan = fitted(plan, static_cast<int>(d), caps[d], cost);
  // Replicas of a stage on unequal devices may each have asked for another set.
  const std::vector<std::int64_t> peaks = cost.peak_bytes(plan);
  for (Stage& stage : plan.stages)
    if (std::ranges::any_of(stage.devices, [&](int d) { return over(peaks, as_index(d)); }))
      stage.recompute = {Recompute::Mode::all, {}, {}};
  return plan;
}

}  // namespace mptune::planner
