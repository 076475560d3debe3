#include "profiler/measure/layer_costs.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/library_message.h"
#include "profiler/device/precise_sleep.h"
#include "profiler/measure/size_choice.h"
#include "profiler/trace/statistics/stopping.h"

namespace mptune::profiler {

namespace {

/// Which of a layer's samples the passes of one kind give, and how long the passes took in all.
struct PassKind {
  std::vector<Samples LayerCost::*> parts;  ///< parts after the forward
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

  /// Returns the tensors that a layer returns, in bytes per sample.
  [[nodiscard]] std::vector<ReturnedTensor> returned(std::size_t layer) const {
    std::vector<ReturnedTensor> tensors = returned_[layer];
    for (ReturnedTensor& tensor : tensors) tensor.bytes /= samples_;
    return tensors;
  }

  /// Sets what its first passes show. `first`: the pass with this size's backward, split or whole; `whole`: the pass with a whole backward.
  void set_warm_up(ChainTimes first, MeasuredPeaks whole) {
    for (std::size_t i = 0; i < costs_.size(); ++i) costs_[i].peaks = whole.peaks[i];
    warm_split_ = std::move(first);
    warm_whole_ = std::move(whole.times);
  }
  /// Sets how long a pass takes, with everything that is not timed.
  void set_pass_seconds(double seconds) { pass_s_ = seconds; }
  [[nodiscard]] double pass_s() const { return pass_s_; }

  /// Counts the warm-up if there was no time for more.
  void count_warm_up_without_more() {
    if (whole_passes_.totals.empty()) add_whole(warm_whole_, 0);
    if (split_ && split_passes_.totals.empty()) add_split(warm_split_, 0);
  }

  /// Returns the costs without warm-up passes.
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
  ChainTimes warm_whole_, warm_split_;
  double pass_s_ = 0;
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
constexpr double kPassesOfRound = 2;        // whole and split
constexpr double kPassesOfPeaks = 4.0 / 3;  // a whole pass, and a forward
constexpr double kPassesBeside = 3;         // beside busy devices: warm-up, the pass, and the end of the others'

/// Warms the model up at every size at which it can run.
class SizeList {
 public:
  SizeList(Bench& bench, const Batch& batch, int layers, const LayerLimits& limits)
      : bench_(bench), batch_(batch), layers_(layers), limits_(limits) {}

  /// Warms up at `size`. Returns nullopt if the model can't run at this size.
  std::optional<WarmUp> add(int size) {
    const Batch microbatch = samples_of(batch_, 0, size);
    const auto start = SteadyClock::now();
    // A split backward holds more than a whole one, for which there may still be enough memory.
    for (const bool split : {true, false}) {
      std::optional<ChainTimes> first = first_pass(microbatch, size, split);
      if (!first) continue;
      const auto second = SteadyClock::now();
      std::optional<MeasuredPeaks> peaks = attempt(size, [&] { return bench_.peaks(microbatch); });
      if (!peaks) continue;
      const double pass_s = seconds_since(second) / kPassesOfPeaks;
      SizeCosts& cost = costs_.emplace_back(size, layers_, split);
      cost.set_warm_up(*std::move(first), *std::move(peaks));
      cost.set_pass_seconds(pass_s);
      return WarmUp{seconds_since(start), pass_s};
    }
    return std::nullopt;
  }
  /// Warms up at `size` in place of all sizes before. Returns false if the model can't run at this size.
  bool replace_by(int size) {
    if (!add(size)) return false;
    costs_.erase(costs_.begin(), costs_.end() - 1);
    return true;
  }
  [[nodiscard]] std::vector<SizeCosts> costs() && {
    if (!costs_.empty()) return std::move(costs_);
    if (too_large_ > 0)
      throw Error("not even a micro-batch of " + std::to_string(too_large_) + (too_large_ == 1 ? " sample" : " samples") +
                      " of the whole model fits into memory",
                  bench_.worker->device().name(), "measure on a device with more memory, or use smaller samples", ExitCode::infeasible);
    throw Error("the model can't run: " + library_message(failure_), "profile", "check --input and --batch");
  }

 private:
  static double seconds_since(SteadyClock::time_point start) { return std::chrono::duration<double>(SteadyClock::now() - start).count(); }

  std::optional<ChainTimes> first_pass(const Batch& microbatch, int size, bool split) {
    return attempt(size, [&] {
      const auto start = SteadyClock::now();
      ChainTimes times = bench_.pass(microbatch, true, split);
      if (limits_.timed && costs_.empty()) limits_.timed(size, seconds_since(start));
      return times;
    });
  }

  /// Returns nullopt if `work` fails; rethrows the error of a GPU that is broken afterwards.
  template <class Work>
  std::optional<std::invoke_result_t<Work>> attempt(int size, const Work& work) {
    try {
      return work();
    } catch (const c10::OutOfMemoryError&) {
      too_large_ = too_large_ == 0 ? size : std::min(too_large_, size);
    } catch (const c10::AcceleratorError&) {
      throw;
    } catch (const c10::Error& error) {
      failure_ = error.what_without_backtrace();
    }
    return std::nullopt;
  }

  Bench& bench_;
  const Batch& batch_;
  int layers_;
  const LayerLimits& limits_;
  std::vector<SizeCosts> costs_;
  std::string failure_;
  int too_large_ = 0;  ///< the smallest size that ran out of memory
};

/// Sizes that were warmed up, and those that there was no time for; ascending.
struct WarmedUp {
  std::vector<SizeCosts> costs;
  std::vector<int> left_out;
};

WarmedUp warm_up(SizeList list, const std::vector<int>& sizes, const LayerLimits& limits, const std::function<double()>& used_s) {
  SizeChoice choice = limits.keeps_budget ? SizeChoice(limits.time.budget_s, limits.time.most_s) : SizeChoice();
  std::vector<int> left_out;
  bool wants_largest = limits.wants_largest;
  for (const int size : by_worth(sizes)) {
    if (wants_largest && choice.has_time_to_warm_up(sizes.back(), used_s())) {
      wants_largest = false;
      left_out.clear();
      if (list.replace_by(sizes.back())) break;
    }
    const bool largest_fits = size == sizes.back() && choice.has_time_to_warm_up(size, used_s());
    if (!largest_fits && !choice.fits(size, used_s()))
      left_out.push_back(size);
    else if (const auto warm_up = list.add(size))
      choice.add(size, *warm_up);
  }
  std::vector<SizeCosts> costs = std::move(list).costs();
  std::ranges::sort(costs, {}, &SizeCosts::samples);
  std::ranges::sort(left_out);
  return {std::move(costs), std::move(left_out)};
}

}  // namespace

MeasuredLayers measure_layers(std::vector<Bench>& benches, const Batch& batch, const std::vector<int>& sizes, int layers,
                              const LayerLimits& limits, const std::function<void(double)>& progress) {
  const auto start = SteadyClock::now();
  const double budget_s = limits.time.budget_s;
  const auto used = [&] { return std::chrono::duration<double>(SteadyClock::now() - start).count(); };
  const auto fits = [&](double seconds) { return !limits.keeps_budget || used() + seconds <= budget_s; };
  auto [costs, left_out] = warm_up(SizeList(benches[0], batch, layers, limits), sizes, limits, used);
  const int full = static_cast<int>(batch.inputs.at(0).size(0));
  const auto whole = [&](SizeCosts& cost, const Batch& microbatch, int round) {
    const bool accumulate = cost.samples() != full;
    cost.add_whole(benches[0].pass(microbatch, accumulate), round);
    if (benches.size() == 1 || (round % 2 != 0 && cost.busy_passes() >= 2) || used() >= budget_s) return;
    if (!fits(kPassesBeside * cost.pass_s())) return;
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
      if (cost.settled(kEnough) || (round > 0 && used() > budget_s) || !fits(kPassesOfRound * cost.pass_s())) continue;
      settled = false;
      const Batch microbatch = samples_of(batch, 0, cost.samples());
      if (round % 2 == 0) split(cost, microbatch, round);
      whole(cost, microbatch, round);
      if (round % 2 != 0) split(cost, microbatch, round);
      progress(std::min(1.0, std::max(used() / budget_s, static_cast<double>(round) / kEnough.most)));
    }
    if (settled) break;
  }
  for (SizeCosts& cost : costs) cost.count_warm_up_without_more();
  MeasuredLayers measured{std::vector<LayerCosts>(as_index(layers)), {}, costs.front().unsplit(), std::move(left_out)};
  for (std::size_t i = 0; i < measured.costs.size(); ++i) measured.returned.push_back(costs.back().returned(i));
  for (SizeCosts& cost : costs) {
    auto finished = std::move(cost).finished();
    for (std::size_t i = 0; i < finished.size(); ++i) measured.costs[i].by_samples.push_back(std::move(finished[i]));
  }
  return measured;
}

}  // namespace mptune::profiler
