#include "planner/simulate/stage_prices.h"

#include <algorithm>
#include <cmath>

#include "planner/simulate/operations.h"

namespace mptune::planner {
namespace {

// Sums of times over layers, in whole nanoseconds.
struct StageTimes {
  std::int64_t forward = 0;
  std::int64_t backward = 0;
  std::int64_t forward_busy = 0;
  std::int64_t backward_busy = 0;
  std::int64_t backward_input = 0;
  std::int64_t backward_weight = 0;

  void add(const LayerTimes& times) {
    forward += to_ns(times.forward_s);
    backward += to_ns(times.backward_s);
    forward_busy += to_ns(times.forward_busy_s);
    backward_busy += to_ns(times.backward_busy_s);
    backward_input += to_ns(times.backward_input_s);
    backward_weight += to_ns(times.backward_weight_s);
  }
};

}  // namespace

Price part_of(const Price& whole, std::int64_t alone) {
  const double share = whole.alone > 0 ? static_cast<double>(alone) / static_cast<double>(whole.alone) : 0;
  return {alone, std::llround(static_cast<double>(whole.extra) * std::min(1.0, share))};
}

StagePrices stage_prices(const Stage& stage, const CostModel& cost, int device, int samples, bool slowed) {
  StageTimes all, early, inside;
  const int first_early = first_recomputed_early(stage);
  for (int layer = stage.first_layer; layer < stage.last_layer; ++layer) {
    const LayerTimes times = cost.layer(device, layer, samples);
    all.add(times);
    if (recomputes_layer(stage.recompute, layer)) (layer < first_early ? inside : early).add(times);
  }
  const auto price = [&](std::int64_t alone, std::int64_t busy) {
    return Price{alone, slowed ? std::max<std::int64_t>(0, busy - alone) : 0};
  };
  StagePrices prices;
  prices.forward = price(all.forward, all.forward_busy);
  prices.backward = price(all.backward, all.backward_busy);
  prices.early = price(early.forward, early.forward_busy);
  prices.inside = price(inside.forward, inside.forward_busy);
  prices.input = part_of(prices.backward, all.backward_input);
  prices.weight = part_of(prices.backward, all.backward_weight);
  return prices;
}

}  // namespace mptune::planner
