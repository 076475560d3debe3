#include "planner/schedule/greedy.h"

#include <algorithm>

#include "planner/schedule/arrivals.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

constexpr std::int64_t kNever = Arrivals::kNever;

class Greedy {
 public:
  Greedy(const Layout& layout, const ScheduleCosts& costs, const GreedyPolicy& policy)
      : layout_(layout),
        costs_(costs),
        policy_(policy),
        devices_(as_index(layout.devices())),
        decides_ns_(devices_.size(), kNever),
        progress_(layout.units().size()),
        arrivals_(layout, costs),
        rows_(devices_.size()) {
    for (std::size_t d = 0; d < devices_.size(); ++d) devices_[d].weights.reserve(64);
  }

  Rows run() {
    for (int d = 0; d < layout_.devices(); ++d) decides_ns_[as_index(d)] = first_input(d);
    while (true) {
      const auto next = std::ranges::min_element(decides_ns_);
      if (*next == kNever) return complete() ? std::move(rows_) : Rows();
      decide(static_cast<int>(next - decides_ns_.begin()));
    }
  }

 private:
  struct Device {
    std::int64_t free_ns = 0;
    std::int64_t saved_activation_bytes = 0;
    std::int64_t idle_ns = 0;  // since its first action
    std::vector<int> weights;  // units with a weight gradient to do, in the order of their input gradients
    std::size_t weights_done = 0;
    bool backward_last = true;
  };
  struct Progress {
    int forwards = 0;
    int inputs = 0;
    int released = 0;
  };
  struct Candidate {
    int unit = -1;
    std::int64_t at_ns = kNever;  // when it could start
    bool forward = false;
  };

  [[nodiscard]] const Unit& unit(int u) const { return layout_.units()[as_index(u)]; }
  [[nodiscard]] Progress& progress(int u) { return progress_[as_index(u)]; }
  [[nodiscard]] const StageCosts& costs(int u) const { return costs_.stages[as_index(unit(u).stage)]; }
  [[nodiscard]] Device& device(int d) { return devices_[as_index(d)]; }

  [[nodiscard]] bool complete() {
    for (int u = 0; u < static_cast<int>(progress_.size()); ++u)
      if (progress(u).released < unit(u).count) return false;
    return true;
  }

  std::int64_t first_input(int d) {
    std::int64_t at = kNever;
    for (const int u : layout_.on(d)) at = std::min(at, forward_at(u));
    return at;
  }

  std::int64_t forward_at(int u) {
    const int k = progress(u).forwards;
    return k < unit(u).count ? arrivals_.at({unit(u).stage, ActionKind::forward, unit(u).microbatch(k)}) : kNever;
  }

  std::int64_t backward_at(int u) {
    const int k = progress(u).inputs;
    return k < progress(u).forwards ? arrivals_.at({unit(u).stage, ActionKind::backward_input, unit(u).microbatch(k)}) : kNever;
  }

  [[nodiscard]] static bool runs(const Unit& unit, int microbatch) { return microbatch % unit.stride == unit.first; }
  [[nodiscard]] int next_forward(int u) { return unit(u).microbatch(progress(u).forwards); }

  // Returns the bytes of a micro-batch on a device: those it holds, and those it still needs.
  std::pair<std::int64_t, std::int64_t> bytes_of(int d, int microbatch) {
    std::int64_t saved = 0;
    std::int64_t needed = 0;
    for (const int u : layout_.on(d)) {
      if (!runs(unit(u), microbatch) || microbatch < unit(u).microbatch(progress(u).released)) continue;
      if (microbatch >= next_forward(u))
        needed += costs(u).saved_activation_bytes;
      else
        saved += microbatch < unit(u).microbatch(progress(u).inputs) ? costs(u).held_bytes : costs(u).saved_activation_bytes;
    }
    return {saved, needed};
  }

  // This is the banker's algorithm: after this forward, the micro-batches of the device can still finish one after another, the oldest
  // first.
  bool has_room(int u) {
    const int d = unit(u).device;
    if (!policy_.in_flight.empty() && progress(u).forwards - progress(u).inputs >= policy_.in_flight[as_index(unit(u).stage)]) return false;
    const std::int64_t limit = policy_.limit[as_index(d)];
    if (limit == ScheduleCosts::kNoLimit) return true;
    std::int64_t free = limit - device(d).saved_activation_bytes - costs(u).saved_activation_bytes;
    if (free < 0 || layout_.on(d).size() == 1) return free >= 0;
    ++progress(u).forwards;
    const bool safe = all_can_finish(d, free);
    --progress(u).forwards;
    return safe;
  }

  bool all_can_finish(int d, std::int64_t free) {
    int oldest = layout_.microbatches();
    int newest = 0;
    for (const int u : layout_.on(d)) {
      oldest = std::min(oldest, unit(u).microbatch(progress(u).released));
      newest = std::max(newest, next_forward(u));
    }
    for (int i = oldest; i < newest; ++i) {
      const auto [saved, needed] = bytes_of(d, i);
      if (saved > 0 && needed > free) return false;
      free += saved;
    }
    return true;
  }

  Candidate forward_candidate(int d) {
    Candidate best;
    for (const int u : layout_.on(d)) {
      const std::int64_t at = std::max(forward_at(u), decides_ns_[as_index(d)]);
      if (forward_at(u) == kNever || !has_room(u)) continue;
      if (at < best.at_ns || (at == best.at_ns && policy_.late_stages_forward)) best = {u, at, true};
    }
    return best;
  }

  Candidate backward_candidate(int d) {
    Candidate best;
    for (const int u : layout_.on(d)) {
      if (backward_at(u) == kNever) continue;
      const std::int64_t at = std::max(backward_at(u), decides_ns_[as_index(d)]);
      if (at < best.at_ns || (at == best.at_ns && policy_.late_stages_backward)) best = {u, at, false};
    }
    return best;
  }

  [[nodiscard]] bool prefers_forward(int d) {
    if (policy_.first == GreedyPolicy::First::alternate) return device(d).backward_last;
    return policy_.first == GreedyPolicy::First::forward;
  }

  Candidate best_candidate(int d) {
    const Candidate forward = forward_candidate(d);
    const Candidate backward = backward_candidate(d);
    return (forward.at_ns != backward.at_ns ? forward.at_ns < backward.at_ns : prefers_forward(d)) ? forward : backward;
  }

  [[nodiscard]] bool waits(int d, std::int64_t wait_ns, std::int64_t weight_ns) {
    if (policy_.idle_as_others && wait_ns <= most_idle_ns_ - device(d).idle_ns) return true;
    return wait_ns * 100 < weight_ns * policy_.patience_percent;
  }

  void decide(int d) {
    Device& at = device(d);
    const std::int64_t now = decides_ns_[as_index(d)];
    const Candidate best = best_candidate(d);
    if (best.at_ns == now) {
      run(best.unit, best.forward ? ActionKind::forward : (policy_.split ? ActionKind::backward_input : ActionKind::backward));
      return;
    }
    if (at.weights_done < at.weights.size()) {
      const int u = at.weights[at.weights_done];
      if (best.at_ns == kNever || !waits(d, best.at_ns - now, costs(u).backward_weight_ns)) {
        ++at.weights_done;
        run(u, ActionKind::backward_weight);
        return;
      }
    }
    decides_ns_[as_index(d)] = best.at_ns;
  }

  void run(int u, ActionKind kind) {
    const int d = unit(u).device;
    Progress& done = progress(u);
    int k = 0;
    switch (kind) {
      case ActionKind::forward:
        k = done.forwards++;
        break;
      case ActionKind::backward:
        k = done.inputs++;
        ++done.released;
        break;
      case ActionKind::backward_input:
        k = done.inputs++;
        device(d).weights.push_back(u);
        break;
      case ActionKind::backward_weight:
        k = done.released++;
        break;
    }
    const Action action{unit(u).stage, kind, unit(u).microbatch(k)};
    rows_[as_index(d)].push_back(action);
    Device& at = device(d);
    std::int64_t& decides = decides_ns_[as_index(d)];
    if (rows_[as_index(d)].size() > 1) most_idle_ns_ = std::max(most_idle_ns_, at.idle_ns += decides - at.free_ns);
    at.free_ns = decides + duration_ns(costs(u), kind);
    at.saved_activation_bytes += bytes_left(costs(u), kind);
    decides = at.free_ns;
    if (kind != ActionKind::backward_weight) {
      at.backward_last = kind != ActionKind::forward;
      send(action, at.free_ns);
    }
  }

  // The readers' devices decide again when their inputs have arrived.
  void send(const Action& action, std::int64_t end_ns) {
    arrivals_.send(action, end_ns);
    for (const int to : arrivals_.readers(action)) {
      const std::int64_t arrival = arrivals_.at({to, action.kind, action.microbatch});
      if (arrival == kNever) continue;
      const int reader = layout_.device_of(to, action.microbatch);
      std::int64_t& decides = decides_ns_[as_index(reader)];
      decides = std::min(decides, std::max(device(reader).free_ns, arrival));
    }
  }

  const Layout& layout_;
  const ScheduleCosts& costs_;
  const GreedyPolicy& policy_;
  std::vector<Device> devices_;
  std::vector<std::int64_t> decides_ns_;  // when each device is free and an input may have arrived
  std::vector<Progress> progress_;
  Arrivals arrivals_;
  Rows rows_;
  std::int64_t most_idle_ns_ = 0;
};

}  // namespace

Rows greedy_rows(const Layout& layout, const ScheduleCosts& costs, const GreedyPolicy& policy) {
  return Greedy(layout, costs, policy).run();
}

}  // namespace mptune::planner
