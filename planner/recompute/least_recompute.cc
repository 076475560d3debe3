#include "planner/recompute/least_recompute.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include "planner/recompute/device_layers.h"
#include "planner/recompute/least_set.h"
#include "planner/recompute/smallest_peak.h"
#include "planner/simulate/simulate.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

// How many sets of layers are made in the time of a simulated action.
constexpr std::int64_t kSetsPerAction = 32;
constexpr int kMostExchanges = 64;

// Chooses what one device of a plan computes again.
class DeviceFit {
 public:
  DeviceFit(Plan& plan, int device, std::int64_t cap, const CostModel& cost)
      : plan_(plan), device_(device), cap_(cap), cost_(cost), layers_(plan, device, cost) {}

  // Chooses the set that takes least time of those that fit, or the one that exceeds the cap by least.
  void fit(Effort effort) {
    LeastSet found = least_set(layers_.choices(), [this](const LayerSet& set) { return fits(set); });
    worked_ += found.stored / kSetsPerAction;
    LayerSet some = found.layers && effort == Effort::quick ? *found.layers : smallest();
    if (!fits(some)) return layers_.choose(some, plan_);
    if (effort == Effort::thorough) some = less(found.layers, std::move(some));
    const std::optional<LayerSet> behind = fitting_behind();
    layers_.choose(behind && step_s(*behind) < step_s(some) ? *behind : some, plan_);
  }

  // Returns the work so far, in simulated actions.
  [[nodiscard]] std::int64_t worked() const { return worked_; }

 private:
  LayerSet smallest() {
    return smallest_peak(layers_, cap_, [this](const LayerSet& set) { return peak_bytes(set); }).layers;
  }

  // Drops layers from both sets, and improves the one whose forwards then take less.
  LayerSet less(std::optional<LayerSet> found, LayerSet smallest) {
    drop(smallest);
    if (found) drop(*found);
    LayerSet least = found && forward_ns(*found) <= forward_ns(smallest) ? std::move(*found) : std::move(smallest);
    exchange(least);
    return least;
  }

  // Saves layers of a set as long as it fits, those whose forwards take most first. A saved layer may divide a piece, and so free bytes.
  void drop(LayerSet& set) {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < set.size(); ++i)
      if (set[i]) order.push_back(i);
    std::ranges::stable_sort(order, std::greater{}, [this](std::size_t i) { return layers_.choices()[i].forward_ns; });
    for (const std::size_t i : order) {
      set[i] = false;
      set[i] = !fits(set);
    }
  }

  // Computes layers again in the place of layers whose forwards take more, as long as the set fits.
  void exchange(LayerSet& set) {
    const std::vector<LayerChoice>& layers = layers_.choices();
    std::vector<std::size_t> order(set.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return layers[i].forward_ns; });
    int tries = 0;
    for (auto dear = order.rbegin(); dear != order.rend(); ++dear) {
      for (auto cheap = order.begin(); set[*dear] && layers[*cheap].forward_ns < layers[*dear].forward_ns; ++cheap) {
        if (set[*cheap]) continue;
        if (++tries > kMostExchanges) return;
        set[*dear] = false;
        set[*cheap] = true;
        if (fits(set)) break;
        set[*dear] = true;
        set[*cheap] = false;
      }
    }
  }

  [[nodiscard]] std::int64_t forward_ns(const LayerSet& set) const {
    std::int64_t ns = 0;
    for (std::size_t i = 0; i < set.size(); ++i) ns += set[i] ? layers_.choices()[i].forward_ns : 0;
    return ns;
  }

  // The last layers of one stage are computed again while the device waits for the gradient (first_recomputed_early), so they may cost less
  // time than their forward takes. Returns the fewest last layers that fit, of the stage where that is fastest.
  std::optional<LayerSet> fitting_behind() {
    std::optional<LayerSet> best;
    double best_s = 0;
    const std::vector<LayerChoice>& layers = layers_.choices();
    for (std::size_t begin = 0, end = 0; begin < layers.size(); begin = end) {
      do ++end;
      while (end < layers.size() && !layers[end].first);
      const auto last = [&](std::size_t count) {
        LayerSet set(layers.size());
        std::fill(set.begin() + static_cast<std::ptrdiff_t>(end - count), set.begin() + static_cast<std::ptrdiff_t>(end), true);
        return set;
      };
      std::size_t low = 1, high = end - begin;
      if (!fits(last(high))) continue;
      while (low < high) {
        const std::size_t middle = low + (high - low) / 2;
        fits(last(middle)) ? high = middle : low = middle + 1;
      }
      const double some_s = step_s(last(high));
      if (best && some_s >= best_s) continue;
      best = last(high);
      best_s = some_s;
    }
    return best;
  }

  bool fits(const LayerSet& set) { return peak_bytes(set) <= cap_; }

  std::int64_t peak_bytes(const LayerSet& set) {
    layers_.choose(set, plan_);
    worked_ += kActionsPerPeak + std::ssize(plan_.actions[as_index(device_)]);
    return cost_.peak_bytes(plan_, device_);
  }

  double step_s(const LayerSet& set) {
    layers_.choose(set, plan_);
    for (const std::vector<Action>& row : plan_.actions) worked_ += std::ssize(row);
    return predict(plan_, cost_).step_s;
  }

  Plan& plan_;
  int device_;
  std::int64_t cap_;
  const CostModel& cost_;
  DeviceLayers layers_;
  std::int64_t worked_ = 0;
};

}  // namespace

LeastRecompute with_least_recompute(Plan plan, const std::vector<std::int64_t>& caps, const CostModel& cost, Effort effort) {
  LeastRecompute least;
  least.plan = fit_devices(std::move(plan), caps, cost, [&](Plan& now, int device) {
    DeviceFit device_fit(now, device, caps[as_index(device)], cost);
    device_fit.fit(effort);
    least.worked += device_fit.worked();
  });
  return least;
}

}  // namespace mptune::planner
