#include "profiler/measure/layer_costs.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <utility>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/device/precise_sleep.h"
#include "profiler/statistics/stopping.h"

namespace mptune::profiler {

namespace {

/// Collects the measured passes of one micro-batch size.
class SizeCosts {
 public:
  SizeCosts(int samples, int layers) : samples_(samples), costs_(as_index(layers)), gradient_bytes_(costs_.size()) {
    for (LayerCost& cost : costs_) cost.samples = samples;
  }

  void add(const ChainTimes& times, bool busy, int round) {
    double total = 0;
    for (std::size_t i = 0; i < costs_.size(); ++i) {
      LayerCost& cost = costs_[i];
      (busy ? cost.forward_busy : cost.forward).values.push_back({times.forward_s[i], round, busy, 0});
      (busy ? cost.backward_busy : cost.backward).values.push_back({times.backward_s[i], round, busy, 0});
      cost.output_bytes = times.output_bytes[i];
      gradient_bytes_[i] = times.gradient_bytes[i];
      cost.saved_activation_bytes = std::max(cost.saved_activation_bytes, times.saved_activation_bytes[i]);
      cost.workspace_bytes = std::max(cost.workspace_bytes, times.workspace_bytes[i]);
      cost.keeps_output = times.keeps_output[i];
      total += times.forward_s[i] + times.backward_s[i];
    }
    (busy ? busy_totals_ : totals_).values.push_back({total, round, busy, 0});
  }

  [[nodiscard]] const Samples& totals() const { return totals_; }
  [[nodiscard]] const Samples& busy_totals() const { return busy_totals_; }
  [[nodiscard]] int samples() const { return samples_; }

  /// Bytes per sample that cross the cut behind a layer, forward and backward.
  [[nodiscard]] Crossing crossing(std::size_t layer) const {
    return {costs_[layer].output_bytes / samples_, gradient_bytes_[layer] / samples_};
  }

  /// The costs without warm-up passes.
  [[nodiscard]] std::vector<LayerCost> finished() && {
    const auto drop = [](Samples& samples, int count) { samples.values.erase(samples.values.begin(), samples.values.begin() + count); };
    const int alone = warm_up(totals_), busy = warm_up(busy_totals_);
    for (LayerCost& cost : costs_) {
      drop(cost.forward, alone);
      drop(cost.backward, alone);
      drop(cost.forward_busy, busy);
      drop(cost.backward_busy, busy);
    }
    return std::move(costs_);
  }

 private:
  static int warm_up(const Samples& samples) {
    std::vector<double> values;
    for (const Sample& sample : samples.values) values.push_back(sample.value);
    return warm_up_length(values);
  }

  int samples_;
  std::vector<LayerCost> costs_;
  std::vector<std::int64_t> gradient_bytes_;
  Samples totals_, busy_totals_;
};

/// Keeps the other devices computing during its lifetime.
class BusyNeighbours {
 public:
  BusyNeighbours(std::vector<Bench>& benches, const Batch& microbatch) : benches_(benches) {
    for (std::size_t i = 1; i < benches_.size(); ++i)
      benches_[i].worker->post([this, &bench = benches_[i], microbatch] {
        while (!stop_) (void)bench.chain->time_pass(microbatch, true);
      });
  }
  ~BusyNeighbours() {
    stop_ = true;
    for (std::size_t i = 1; i < benches_.size(); ++i) (void)benches_[i].worker->wait();
  }
  BusyNeighbours(const BusyNeighbours&) = delete;
  BusyNeighbours& operator=(const BusyNeighbours&) = delete;

 private:
  std::vector<Bench>& benches_;
  std::atomic<bool> stop_{false};
};

constexpr StoppingRule kEnough{4, 12, 0.02};

}  // namespace

MeasuredLayers measure_layers(std::vector<Bench>& benches, const Batch& batch, const std::vector<int>& sizes, int layers, double budget_s,
                              const std::function<void(double)>& progress) {
  std::vector<SizeCosts> costs;
  std::string failure;
  const auto start = SteadyClock::now();
  for (int size : sizes) {
    try {
      const Batch microbatch = samples_of(batch, 0, size);
      (void)benches[0].pass(microbatch, true);
      costs.emplace_back(size, layers);
    } catch (const c10::Error& error) {
      failure = error.what_without_backtrace();
    }
  }
  if (costs.empty()) throw Error("the model can't run: " + failure.substr(0, failure.find('\n')), "profile", "check --input and --batch");
  const int full = sizes.back();
  const auto used = [&] { return std::chrono::duration<double>(SteadyClock::now() - start).count(); };
  for (int round = 0; round < kEnough.most; ++round) {
    bool settled = true;
    for (SizeCosts& cost : costs) {
      if (should_stop(cost.totals(), kEnough) || (round > 0 && used() > budget_s)) continue;
      settled = false;
      const Batch microbatch = samples_of(batch, 0, cost.samples());
      const bool accumulate = cost.samples() != full;
      cost.add(benches[0].pass(microbatch, accumulate), false, round);
      if (benches.size() > 1 && (round % 2 == 0 || cost.busy_totals().size() < 2) && used() < budget_s) {
        const BusyNeighbours busy(benches, microbatch);
        if (round == 0) (void)benches[0].pass(microbatch, accumulate);
        cost.add(benches[0].pass(microbatch, accumulate), true, round);
      }
      progress(std::min(1.0, std::max(used() / budget_s, static_cast<double>(round) / kEnough.most)));
    }
    if (settled) break;
  }
  MeasuredLayers measured{std::vector<LayerCosts>(as_index(layers)), {}};
  for (std::size_t i = 0; i < measured.costs.size(); ++i) measured.crossings.push_back(costs.back().crossing(i));
  for (SizeCosts& cost : costs) {
    auto finished = std::move(cost).finished();
    for (std::size_t i = 0; i < finished.size(); ++i) measured.costs[i].by_samples.push_back(std::move(finished[i]));
  }
  return measured;
}

}  // namespace mptune::profiler
