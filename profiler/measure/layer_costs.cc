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

/// Which of a layer's samples passes of one kind give, and how long the passes took in all.
struct PassKind {
  std::vector<Samples LayerCost::*> parts;  ///< behind the forward
  Samples LayerCost::*forward = &LayerCost::forward;
  Samples totals = {};
  std::vector<Samples> forwards = {};  ///< by layer
};

/// Collects the measured passes of one micro-batch size.
class SizeCosts {
 public:
  SizeCosts(int samples, int layers, bool split)
      : samples_(samples), split_(split), costs_(as_index(layers)), returned_(costs_.size()), unsplit_(costs_.size()) {
    for (LayerCost& cost : costs_) cost.samples = samples;
    for (PassKind* kind : {&whole_passes_, &busy_passes_, &split_passes_}) kind->forwards.resize(costs_.size());
  }

  void add_whole(const ChainTimes& times, int round) {
    add(whole_passes_, times, round, {&times.backward_s});
    add_bytes(times);
  }
  void add_busy(const ChainTimes& times, int round) {
    add(busy_passes_, times, round, {&times.backward_s});
    add_bytes(times);
  }
  void add_split(const ChainTimes& times, int round) {
    add(split_passes_, times, round, {&times.backward_input_s, &times.backward_weight_s});
    add_bytes(times);
    for (std::size_t i = 0; i < costs_.size(); ++i) {
      SplitMemory memory = times.split[i];
      if (const auto& known = costs_[i].split) {
        memory.input_workspace_bytes = std::max(memory.input_workspace_bytes, known->input_workspace_bytes);
        memory.weight_workspace_bytes = std::max(memory.weight_workspace_bytes, known->weight_workspace_bytes);
      }
      costs_[i].split = memory;
      unsplit_[i] = times.unsplit[i];
    }
  }

  [[nodiscard]] bool settled(const StoppingRule& rule) const {
    return should_stop(whole_passes_.totals, rule) && (!split_ || should_stop(split_passes_.totals, rule));
  }
  [[nodiscard]] std::size_t busy_passes() const { return busy_passes_.totals.size(); }
  [[nodiscard]] int samples() const { return samples_; }
  [[nodiscard]] bool split() const { return split_; }
  [[nodiscard]] const std::vector<Unsplit>& unsplit() const { return unsplit_; }

  /// Bytes per sample that cross the cut behind a layer, forward and backward.
  /// Bytes per sample.
  [[nodiscard]] std::vector<ReturnedTensor> returned(std::size_t layer) const {
    std::vector<ReturnedTensor> tensors = returned_[layer];
    for (ReturnedTensor& tensor : tensors) tensor.bytes /= samples_;
    return tensors;
  }

  void set_peaks(const std::vector<LayerPeaks>& peaks) {
    for (std::size_t i = 0; i < costs_.size(); ++i) costs_[i].peaks = peaks[i];
  }

  /// The costs without warm-up passes.
  [[nodiscard]] std::vector<LayerCost> finished() && {
    for (PassKind* kind : {&whole_passes_, &busy_passes_, &split_passes_}) drop_warm_up(*kind);
    for (std::size_t i = 0; i < costs_.size(); ++i) {
      std::vector<Sample>& all = costs_[i].forward.values;
      std::ranges::stable_sort(all, {}, [](const Sample& sample) { return std::pair(sample.round, sample.position); });
    }
    return std::move(costs_);
  }

 private:
  using LayerSeconds = std::vector<double>;

  void add(PassKind& kind, const ChainTimes& times, int round, const std::vector<const LayerSeconds*>& parts) {
    if (round != round_) position_ = 0;
    round_ = round;
    double total = 0;
    const auto put = [&](Samples& samples, double seconds) {
      samples.values.push_back({seconds, round, position_, 0});
      total += seconds;
    };
    for (std::size_t i = 0; i < costs_.size(); ++i) {
      put(kind.forwards[i], times.forward_s[i]);
      for (std::size_t part = 0; part < parts.size(); ++part) put(costs_[i].*kind.parts[part], (*parts[part])[i]);
    }
    kind.totals.values.push_back({total, round, position_++, 0});
  }

  void add_bytes(const ChainTimes& times) {
    for (std::size_t i = 0; i < costs_.size(); ++i) {
      LayerCost& cost = costs_[i];
      cost.output_bytes = times.output_bytes[i];
      returned_[i] = times.returned[i];
      cost.saved_activation_bytes = std::max(cost.saved_activation_bytes, times.saved_activation_bytes[i]);
      cost.workspace_bytes = std::max(cost.workspace_bytes, times.workspace_bytes[i]);
      cost.keeps_output = times.keeps_output[i];
    }
  }

  /// Moves the forwards to the costs, too: two kinds of passes measure them.
  void drop_warm_up(PassKind& kind) {
    std::vector<double> totals;
    for (const Sample& sample : kind.totals.values) totals.push_back(sample.value);
    const int count = warm_up_length(totals);
    const auto drop = [&](Samples& samples) { samples.values.erase(samples.values.begin(), samples.values.begin() + count); };
    for (std::size_t i = 0; i < costs_.size(); ++i) {
      for (Samples LayerCost::*part : kind.parts) drop(costs_[i].*part);
      drop(kind.forwards[i]);
      std::vector<Sample>& all = (costs_[i].*kind.forward).values;
      all.insert(all.end(), kind.forwards[i].values.begin(), kind.forwards[i].values.end());
    }
  }

  int samples_;
  bool split_;
  std::vector<LayerCost> costs_;
  std::vector<std::vector<ReturnedTensor>> returned_;
  std::vector<Unsplit> unsplit_;
  PassKind whole_passes_{{&LayerCost::backward}};
  PassKind busy_passes_{{&LayerCost::backward_busy}, &LayerCost::forward_busy};
  PassKind split_passes_{{&LayerCost::backward_input, &LayerCost::backward_weight}};
  int round_ = -1;
  int position_ = 0;
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
constexpr std::size_t kLeastSizes = 2;  // a line through two sizes gives the costs of all
// What the counted passes of a size take, by the time of its warm-up: that of four passes, one of them beside busy devices, to two and a
// half.
constexpr double kCountedPerWarmUp = 2;

/// Warms the model up at every size at which it can run.
class SizeList {
 public:
  SizeList(Bench& bench, const Batch& batch, int layers) : bench_(bench), batch_(batch), layers_(layers) {}

  void add(int size) {
    const Batch microbatch = samples_of(batch_, 0, size);
    const auto start = SteadyClock::now();
    // A split backward holds more than a whole one, which may still have memory enough.
    for (const bool split : {true, false}) {
      if (!runs(microbatch, split)) continue;
      costs_.emplace_back(size, layers_, split).set_peaks(bench_.peaks(microbatch));
      sample_s_ = std::chrono::duration<double>(SteadyClock::now() - start).count() / size;
      samples_ += size;
      return;
    }
  }
  [[nodiscard]] std::size_t count() const { return costs_.size(); }
  /// What the counted passes of all sizes take if `size` is added, its warm-up included [s].
  [[nodiscard]] double seconds_with(int size) const { return sample_s_ * (size + kCountedPerWarmUp * (samples_ + size)); }
  [[nodiscard]] std::vector<SizeCosts> costs() && {
    if (costs_.empty())
      throw Error("the model can't run: " + failure_.substr(0, failure_.find('\n')), "profile", "check --input and --batch");
    return std::move(costs_);
  }

 private:
  bool runs(const Batch& microbatch, bool split) {
    try {
      (void)bench_.pass(microbatch, true, split);
      return true;
    } catch (const c10::Error& error) {
      failure_ = error.what_without_backtrace();
      return false;
    }
  }

  Bench& bench_;
  const Batch& batch_;
  int layers_;
  std::vector<SizeCosts> costs_;
  std::string failure_;
  double sample_s_ = 0;  // warm-up of the last size, per sample: that of the first one has what happens once
  double samples_ = 0;   // of all sizes
};

}  // namespace

MeasuredLayers measure_layers(std::vector<Bench>& benches, const Batch& batch, const std::vector<int>& sizes, int layers, double budget_s,
                              bool keeps_budget, const std::function<void(double)>& progress) {
  const auto start = SteadyClock::now();
  SizeList list(benches[0], batch, layers);
  const auto used = [&] { return std::chrono::duration<double>(SteadyClock::now() - start).count(); };
  std::vector<int> left_out;
  for (const int size : sizes) {
    if (keeps_budget && list.count() >= kLeastSizes && used() + list.seconds_with(size) > budget_s)
      left_out.push_back(size);
    else
      list.add(size);
  }
  std::vector<SizeCosts> costs = std::move(list).costs();
  const int full = static_cast<int>(batch.inputs.at(0).size(0));
  const auto whole = [&](SizeCosts& cost, const Batch& microbatch, int round) {
    const bool accumulate = cost.samples() != full;
    cost.add_whole(benches[0].pass(microbatch, accumulate), round);
    if (benches.size() == 1 || (round % 2 != 0 && cost.busy_passes() >= 2) || used() >= budget_s) return;
    const BusyNeighbours busy(benches, microbatch);
    if (round == 0) (void)benches[0].pass(microbatch, accumulate);
    cost.add_busy(benches[0].pass(microbatch, accumulate), round);
  };
  const auto split = [&](SizeCosts& cost, const Batch& microbatch, int round) {
    if (cost.split()) cost.add_split(benches[0].pass(microbatch, cost.samples() != full, true), round);
  };
  for (int round = 0; round < kEnough.most; ++round) {
    bool settled = true;
    for (SizeCosts& cost : costs) {
      if (cost.settled(kEnough) || (round > 0 && used() > budget_s)) continue;
      settled = false;
      const Batch microbatch = samples_of(batch, 0, cost.samples());
      if (round % 2 == 0) split(cost, microbatch, round);
      whole(cost, microbatch, round);
      if (round % 2 != 0) split(cost, microbatch, round);
      progress(std::min(1.0, std::max(used() / budget_s, static_cast<double>(round) / kEnough.most)));
    }
    if (settled) break;
  }
  MeasuredLayers measured{std::vector<LayerCosts>(as_index(layers)), {}, costs.front().unsplit(), std::move(left_out)};
  for (std::size_t i = 0; i < measured.costs.size(); ++i) measured.returned.push_back(costs.back().returned(i));
  for (SizeCosts& cost : costs) {
    auto finished = std::move(cost).finished();
    for (std::size_t i = 0; i < finished.size(); ++i) measured.costs[i].by_samples.push_back(std::move(finished[i]));
  }
  return measured;
}

}  // namespace mptune::profiler
