#include "mptune/planner/simulate/operations.h"

#include <algorithm>
#include <cmath>

#include "mptune/profiler/trace/error.h"

namespace mptune {
namespace {

constexpr int kReplays = 3;

struct StageNs {
  std::int64_t forward = 0;
  std::int64_t forward_extra = 0;
  std::int64_t backward = 0;
  std::int64_t backward_extra = 0;
};

class Lister {
 public:
  Lister(const Plan& plan, const CostModel& cost)
      : plan_(plan), cost_(cost), microbatches_(plan.microbatch_sizes.size()), output_of_(plan.stages.size() * microbatches_, kMissing) {
    gradient_of_ = output_of_;
    result_.devices = static_cast<int>(plan.devices.size());
    result_.lanes = result_.devices;
    lane_.assign(plan.devices.size() * plan.devices.size(), -1);
    for (const std::string& name : plan.devices) {
      devices_.push_back(cost.device_index(name));
      result_.neighbours.push_back(cost.neighbours(devices_.back()));
      result_.step_ns = std::max(result_.step_ns, to_ns(cost.step_seconds(devices_.back())));
    }
    result_.list.reserve(plan.stages.size() * microbatches_ * 5);
  }

  Operations list() {
    list_actions();
    for (int s = 0; s < plan_.num_stages(); ++s) list_reduction(s);
    for (int s = 0; s < plan_.num_stages(); ++s) {
      const int device = stage(s).devices.front();
      const double seconds = cost_.optimizer_seconds(devices_[static_cast<std::size_t>(device)], parameters(s));
      add_end(What::optimizer, Phase::optimizer, s, device, to_ns(seconds));
    }
    return std::move(result_);
  }

 private:
  static constexpr int kMissing = -2;  // not made yet
  static constexpr int kNothing = -1;  // needs no input

  [[nodiscard]] const Stage& stage(int s) const { return plan_.stages[static_cast<std::size_t>(s)]; }
  [[nodiscard]] std::size_t slot(int s, int microbatch) const {
    return static_cast<std::size_t>(s) * microbatches_ + static_cast<std::size_t>(microbatch);
  }
  [[nodiscard]] std::int64_t parameters(int s) const { return cost_.parameters_bytes(stage(s).first_layer, stage(s).last_layer); }

  // Devices take turns, each as far as its inputs exist: any such order gives the same times.
  void list_actions() {
    std::vector<std::size_t> next(plan_.devices.size());
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t d = 0; d < next.size(); ++d) {
        const std::vector<Action>& row = plan_.actions[d];
        while (next[d] < row.size() && add_action(static_cast<int>(d), row[next[d]])) {
          ++next[d];
          progress = true;
        }
      }
    }
  }

  bool add_action(int device, const Action& action) {
    if (action.kind == ActionKind::forward) return add_forward(device, action);
    if (action.kind == ActionKind::backward) return add_backward(device, action);
    throw Error("the profile has no separate times of input and weight gradients", "schedule " + plan_.schedule,
                "use a schedule of full backwards, like gpipe or 1f1b");
  }

  bool add_forward(int device, const Action& action) {
    const int s = action.stage;
    const int input = s == 0 ? kNothing : output_of_[slot(s - 1, action.microbatch)];
    if (input == kMissing) return false;
    const StageNs& ns = priced(s, action.microbatch);
    const int made = add_work(What::forward, device, action, input, ns.forward, ns.forward_extra, true);
    output_of_[slot(s, action.microbatch)] = s + 1 < plan_.num_stages() ? add_copy(s, s + 1, action.microbatch, made) : made;
    return true;
  }

  bool add_backward(int device, const Action& action) {
    const int s = action.stage;
    const bool last = s + 1 == plan_.num_stages();
    const int input = last ? output_of_[slot(s, action.microbatch)] : gradient_of_[slot(s + 1, action.microbatch)];
    if (input == kMissing) return false;
    const StageNs& ns = priced(s, action.microbatch);
    const bool again = recomputes(stage(s).recompute, action.microbatch);
    if (again) {
      const StageNs part = stage(s).recompute.mode == Recompute::Mode::all ? ns : recomputed(s, action.microbatch);
      add_work(What::recompute, device, action, kNothing, part.forward, part.forward_extra, true);
    }
    const int made = add_work(What::backward, device, action, input, ns.backward, ns.backward_extra, !again);
    gradient_of_[slot(s, action.microbatch)] = s > 0 ? add_copy(s, s - 1, action.microbatch, made) : made;
    return true;
  }

  int add(const Operation& operation) {
    result_.list.push_back(operation);
    return static_cast<int>(result_.list.size()) - 1;
  }

  int add_work(What what, int device, const Action& action, int input, std::int64_t ns, std::int64_t extra, bool starts_action) {
    Operation operation;
    operation.what = what;
    operation.device = device;
    operation.lane = device;
    operation.stage = action.stage;
    operation.microbatch = action.microbatch;
    operation.input = input;
    operation.overhead_ns = starts_action ? to_ns(cost_.action_seconds(devices_[static_cast<std::size_t>(device)])) : 0;
    operation.alone_ns = operation.overhead_ns + ns;
    operation.extra_ns = extra;
    result_.interferes |= extra > 0;
    return add(operation);
  }

  // The operation whose end makes the data available on the consumer's device: the copy, or the producer where both are one device.
  int add_copy(int from, int to, int microbatch, int producer) {
    const int source = device_of(stage(from), microbatch);
    const int destination = device_of(stage(to), microbatch);
    if (source == destination) return producer;
    const int samples = plan_.microbatch_sizes[static_cast<std::size_t>(microbatch)];
    Operation copy;
    copy.what = What::copy;
    copy.device = source;
    copy.destination = destination;
    copy.lane = lane_between(source, destination);
    copy.stage = from;
    copy.microbatch = microbatch;
    copy.input = producer;
    copy.bytes = cost_.boundary_bytes(stage(std::max(from, to)).first_layer, samples, from > to);
    copy.alone_ns =
        to_ns(cost_.copy_seconds(devices_[static_cast<std::size_t>(source)], devices_[static_cast<std::size_t>(destination)], copy.bytes));
    return add(copy);
  }

  int lane_between(int source, int destination) {
    int& lane = lane_[static_cast<std::size_t>(source) * plan_.devices.size() + static_cast<std::size_t>(destination)];
    if (lane < 0) lane = result_.lanes++;
    return lane;
  }

  // Every replica sums its share of the parameters over all replicas.
  void list_reduction(int s) {
    const auto replicas = static_cast<double>(stage(s).devices.size());
    if (replicas < 2) return;
    for (const int device : stage(s).devices) {
      const double seconds = cost_.reduce_seconds(devices_[static_cast<std::size_t>(device)], parameters(s)) * (replicas - 1) / replicas;
      add_end(What::reduce, Phase::reduce, s, device, to_ns(seconds));
    }
  }

  void add_end(What what, Phase phase, int s, int device, std::int64_t ns) {
    Operation operation;
    operation.what = what;
    operation.phase = phase;
    operation.device = device;
    operation.lane = device;
    operation.stage = s;
    operation.alone_ns = ns;
    add(operation);
  }

  const StageNs& priced(int s, int microbatch) {
    const int samples = plan_.microbatch_sizes[static_cast<std::size_t>(microbatch)];
    const int device = device_of(stage(s), microbatch);
    for (const Priced& known : priced_) {
      if (known.stage == s && known.device == device && known.samples == samples) return known.ns;
    }
    priced_.push_back({s, device, samples, price(stage(s).first_layer, stage(s).last_layer, device, samples, nullptr)});
    return priced_.back().ns;
  }

  StageNs recomputed(int s, int microbatch) {
    const int samples = plan_.microbatch_sizes[static_cast<std::size_t>(microbatch)];
    return price(stage(s).first_layer, stage(s).last_layer, device_of(stage(s), microbatch), samples, &stage(s).recompute.layers);
  }

  StageNs price(int first, int last, int device, int samples, const std::vector<int>* only) {
    LayerTimes sum;
    for (int layer = first; layer < last; ++layer) {
      if (only != nullptr && !std::binary_search(only->begin(), only->end(), layer)) continue;
      const LayerTimes times = cost_.layer(devices_[static_cast<std::size_t>(device)], layer, samples);
      sum.forward_s += times.forward_s;
      sum.backward_s += times.backward_s;
      sum.forward_busy_s += times.forward_busy_s;
      sum.backward_busy_s += times.backward_busy_s;
    }
    StageNs ns;
    ns.forward = to_ns(sum.forward_s);
    ns.backward = to_ns(sum.backward_s);
    if (result_.neighbours[static_cast<std::size_t>(device)] > 0) {
      ns.forward_extra = std::max<std::int64_t>(0, to_ns(sum.forward_busy_s) - ns.forward);
      ns.backward_extra = std::max<std::int64_t>(0, to_ns(sum.backward_busy_s) - ns.backward);
    }
    return ns;
  }

  struct Priced {
    int stage;
    int device;
    int samples;
    StageNs ns;
  };

  const Plan& plan_;
  const CostModel& cost_;
  std::size_t microbatches_;
  std::vector<int> devices_;  // the profile's indices
  std::vector<int> lane_;
  std::vector<int> output_of_;    // operation that brings a stage's output to the next stage's device
  std::vector<int> gradient_of_;  // likewise the gradient of a stage's input to the stage before
  std::vector<Priced> priced_;
  Operations result_;
};

void replay_once(const Operations& operations, Timing& timing) {
  std::vector<std::int64_t> free(static_cast<std::size_t>(operations.lanes), 0);
  std::vector<std::int64_t> reduced;
  std::int64_t actions_end = 0;
  timing.end_ns = 0;
  for (std::size_t i = 0; i < operations.list.size(); ++i) {
    const Operation& operation = operations.list[i];
    std::int64_t& lane = free[static_cast<std::size_t>(operation.lane)];
    std::int64_t start = lane;
    if (operation.phase == Phase::actions) {
      if (operation.input >= 0) {
        const auto input = static_cast<std::size_t>(operation.input);
        start = std::max(start, timing.start_ns[input] + timing.duration_ns[input]);
      }
      actions_end = std::max(actions_end, start + timing.duration_ns[i]);
    } else {
      start = std::max(start, actions_end);
    }
    if (operation.phase == Phase::optimizer && static_cast<std::size_t>(operation.stage) < reduced.size())
      start = std::max(start, reduced[static_cast<std::size_t>(operation.stage)]);
    timing.start_ns[i] = start;
    lane = start + timing.duration_ns[i];
    if (operation.phase == Phase::reduce) {
      if (reduced.size() <= static_cast<std::size_t>(operation.stage)) reduced.resize(static_cast<std::size_t>(operation.stage) + 1, 0);
      std::int64_t& end = reduced[static_cast<std::size_t>(operation.stage)];
      end = std::max(end, lane);
    }
    timing.end_ns = std::max(timing.end_ns, lane);
  }
}

bool slows_others(const Operation& operation) {
  return operation.phase == Phase::actions && operation.what != What::copy;
}

// Nanoseconds of other devices' compute during each operation, summed over the devices. Both lists of a pair are disjoint and ascending,
// so one pass over each pair is enough.
std::vector<std::int64_t> overlap_with_others(const Operations& operations, const std::vector<std::vector<int>>& rows,
                                              const Timing& timing) {
  std::vector<std::int64_t> overlap(operations.list.size(), 0);
  const auto start = [&](int i) { return timing.start_ns[static_cast<std::size_t>(i)]; };
  const auto end = [&](int i) { return timing.start_ns[static_cast<std::size_t>(i)] + timing.duration_ns[static_cast<std::size_t>(i)]; };
  for (std::size_t a = 0; a < rows.size(); ++a) {
    for (std::size_t b = a + 1; b < rows.size(); ++b) {
      for (std::size_t i = 0, j = 0; i < rows[a].size() && j < rows[b].size();) {
        const int x = rows[a][i];
        const int y = rows[b][j];
        const std::int64_t common = std::min(end(x), end(y)) - std::max(start(x), start(y));
        if (common > 0) {
          overlap[static_cast<std::size_t>(x)] += common;
          overlap[static_cast<std::size_t>(y)] += common;
        }
        end(x) < end(y) ? ++i : ++j;
      }
    }
  }
  return overlap;
}

void slow_down(const Operations& operations, const std::vector<std::vector<int>>& rows, Timing& timing) {
  const std::vector<std::int64_t> overlap = overlap_with_others(operations, rows, timing);
  for (std::size_t i = 0; i < operations.list.size(); ++i) {
    const Operation& operation = operations.list[i];
    if (operation.extra_ns == 0 || timing.duration_ns[i] == 0) continue;
    const auto possible = static_cast<double>(timing.duration_ns[i]) *
                          static_cast<double>(std::max(1, operations.neighbours[static_cast<std::size_t>(operation.device)]));
    const double share = std::min(1.0, static_cast<double>(overlap[i]) / possible);
    timing.duration_ns[i] = operation.alone_ns + std::llround(static_cast<double>(operation.extra_ns) * share);
  }
}

}  // namespace

std::int64_t to_ns(double seconds) {
  return std::llround(seconds * 1e9);
}

Operations list_operations(const Plan& plan, const CostModel& cost) {
  return Lister(plan, cost).list();
}

Timing time_operations(const Operations& operations) {
  Timing timing;
  timing.start_ns.resize(operations.list.size());
  timing.duration_ns.resize(operations.list.size());
  std::vector<std::vector<int>> rows(static_cast<std::size_t>(operations.devices));
  for (std::size_t i = 0; i < operations.list.size(); ++i) {
    timing.duration_ns[i] = operations.list[i].alone_ns;
    if (slows_others(operations.list[i])) rows[static_cast<std::size_t>(operations.list[i].device)].push_back(static_cast<int>(i));
  }
  replay_once(operations, timing);
  for (int replay = 0; operations.interferes && replay < kReplays; ++replay) {
    slow_down(operations, rows, timing);
    replay_once(operations, timing);
  }
  return timing;
}

}  // namespace mptune
