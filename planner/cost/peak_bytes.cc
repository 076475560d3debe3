#include <algorithm>
#include <cmath>
#include <numeric>

#include "planner/cost/cost_model.h"
#include "planner/cost/holding.h"
#include "planner/cost/stage_need.h"
#include "planner/helping.h"
#include "profiler/base/index.h"

namespace mptune {
namespace {

bool releases(ActionKind kind) {
  return kind == ActionKind::backward || kind == ActionKind::backward_weight;
}

// The bytes of one device. Copies never block their sender, so inputs may arrive early. How early is bounded by how far the neighbours' own
// rows let them run ahead of this device.
class DevicePeak {
 public:
  DevicePeak(const Plan& plan, const CostModel& cost, int device)
      : plan_(plan),
        cost_(cost),
        device_(device),
        index_(cost.device_index(plan.devices[as_index(device)])),
        held_(row(device).size()),
        forward_at_(plan.stages.size() * plan.microbatch_sizes.size(), -1),
        gradient_at_(forward_at_),
        release_at_(forward_at_) {
    for (std::size_t q = 0; q < row(device).size(); ++q) {
      const Action& action = row(device)[q];
      if (action.kind == ActionKind::forward)
        forward_at_[slot(action.stage, action.microbatch)] = static_cast<int>(q);
      else if (action.kind != ActionKind::backward_weight)
        gradient_at_[slot(action.stage, action.microbatch)] = static_cast<int>(q);
      splits_ = splits_ || action.kind == ActionKind::backward_input;
      for (int i = action.microbatch; releases(action.kind) && i <= action.last_microbatch(); ++i)
        release_at_[slot(action.stage, i)] = static_cast<int>(q);
    }
  }

  PeakContents contents() {
    collect();
    add_fullest();
    contents_.reserve_bytes = reserve_of(contents_.total());
    return contents_;
  }

  MemoryLevels levels() {
    collect();
    const std::int64_t always = contents_.total();
    const auto with_reserve = [&](std::int64_t held) { return always + held + reserve_of(always + held); };
    MemoryLevels levels{with_reserve(0), held_.during(), held_.after()};
    for (std::vector<std::int64_t>* all : {&levels.during_bytes, &levels.after_bytes})
      std::ranges::transform(*all, all->begin(), with_reserve);
    return levels;
  }

 private:
  // Fills contents_ with what is held during the whole step, and held_ with the rest.
  void collect() {
    for (int s = 0; s < plan_.num_stages(); ++s) {
      const std::vector<int>& devices = stage(s).devices;
      const auto found = std::find(devices.begin(), devices.end(), device_);
      if (found == devices.end()) continue;
      add_owned(s, found == devices.begin());
      add_gradients(s);
      add_activations(s);
      if (s > 0) contents_.communication_buffer_bytes += receive_buffers(s, false);
      if (s + 1 < plan_.num_stages()) contents_.communication_buffer_bytes += receive_buffers(s, true);
    }
    add_running();
    add_helpers();
  }

  [[nodiscard]] std::int64_t reserve_of(std::int64_t bytes) const {
    const double reserve = cost_.profile().classes[as_index(profile_device().device_class)].allocator_reserve;
    return static_cast<std::int64_t>(std::ceil(static_cast<double>(bytes) * std::max(0.0, reserve)));
  }

  [[nodiscard]] const ProfileDevice& profile_device() const { return cost_.profile().devices[as_index(index_)]; }
  [[nodiscard]] const Stage& stage(int s) const { return plan_.stages[as_index(s)]; }
  [[nodiscard]] const std::vector<Action>& row(int device) const { return plan_.actions[as_index(device)]; }
  [[nodiscard]] std::size_t slot(int s, int microbatch) const { return as_index(s) * plan_.microbatch_sizes.size() + as_index(microbatch); }
  [[nodiscard]] int samples(int microbatch) const { return plan_.microbatch_sizes[as_index(microbatch)]; }
  [[nodiscard]] bool mine(int s, int microbatch) const { return device_of(stage(s), microbatch) == device_; }
  [[nodiscard]] std::int64_t boundary(int layer, int microbatch, bool gradients) const {
    return cost_.boundary_bytes(layer, samples(microbatch), gradients);
  }

  // Micro-batches of the stage that this device runs.
  [[nodiscard]] std::int64_t microbatches(int s) const {
    std::int64_t count = 0;
    for (int i = 0; i < plan_.num_microbatches(); ++i) count += mine(s, i) ? 1 : 0;
    return count;
  }

  // Parameters, the optimizer's state (on the first replica only) and buffers, with every micro-batch's statistics until the end of the
  // step; the samples on the first stage.
  void add_owned(int s, bool first_replica) {
    const std::int64_t parameters = parameters_bytes(s);
    contents_.parameters_bytes += parameters;
    if (first_replica)
      contents_.optimizer_bytes += static_cast<std::int64_t>(cost_.profile().optimizer_state_factor * static_cast<double>(parameters));
    for (int layer = stage(s).first_layer; layer < stage(s).last_layer; ++layer) {
      const ProfileLayer& described = cost_.profile().layers[as_index(layer)];
      contents_.buffers_bytes += described.buffers_bytes * (described.batch_statistics ? 1 + microbatches(s) : 1);
    }
    for (int i = 0; s == 0 && i < plan_.num_microbatches(); ++i)
      if (mine(s, i)) contents_.buffers_bytes += samples(i) * cost_.input_bytes_per_sample();
  }

  [[nodiscard]] std::int64_t parameters_bytes(int s) const { return cost_.parameters_bytes(stage(s).first_layer, stage(s).last_layer); }

  // A step begins without gradients. The first backward, or the first weight gradients, make them layer by layer, while they give back
  // what was held: see StageNeed. Those that stay with the input gradients come with the first of these.
  void add_gradients(int s) {
    const std::vector<Action>& actions = row(device_);
    const auto makes = [&](const Action& action) { return action.stage == s && releases(action.kind); };
    const auto first = std::ranges::find_if(actions, makes);
    if (first == actions.end()) return;
    const bool helped = helpers() > 0 && first->kind == ActionKind::backward_weight;
    const int made = helped ? first_weight_gradients(s) : static_cast<int>(first - actions.begin());
    const int end = static_cast<int>(actions.size()) - 1;
    std::int64_t bytes = parameters_bytes(s);
    const auto input =
        std::find_if(actions.begin(), first, [&](const Action& a) { return a.stage == s && a.kind == ActionKind::backward_input; });
    if (input != first) {
      std::int64_t early = 0;
      for (int layer = stage(s).first_layer; layer < stage(s).last_layer; ++layer) early += planner::unsplit_bytes(cost_, layer);
      const int at = static_cast<int>(input - actions.begin());
      held_.add({at, end, early, planner::Holding::kGradients, at});
      bytes -= early;
    }
    held_.add({helped ? made : made + 1, end, bytes, planner::Holding::kGradients, made});
  }

  // Devices that compute this device's weight gradients, itself included; 0: only the weight actions of its row do.
  [[nodiscard]] int helpers() const {
    if (!plan_.options.idle_devices_help) return 0;
    const std::vector<int> groups = planner::helping_groups(plan_.devices, plan_.options.threads);
    const int own = groups[as_index(device_)];
    return own < 0 ? 0 : static_cast<int>(std::ranges::count(groups, own));
  }

  // The first action of the row during which a weight gradient of the stage may be computed: after its first input gradients.
  [[nodiscard]] int first_weight_gradients(int s) const {
    const std::vector<Action>& actions = row(device_);
    const auto gradients = [&](const Action& action) { return action.stage == s && action.kind != ActionKind::forward; };
    const auto first = std::ranges::find_if(actions, gradients);
    return static_cast<int>(first - actions.begin()) + 1;
  }

  // Other devices may compute weight gradients at any time between a stage's first input gradients and its last weight action.
  void add_helpers() {
    const int others = helpers() - 1;
    for (int s = 0; s < plan_.num_stages() && others > 0; ++s) {
      const std::vector<Action>& actions = row(device_);
      int last = -1;
      std::int64_t most = 0;
      for (std::size_t q = 0; q < actions.size(); ++q) {
        if (actions[q].stage != s || actions[q].kind != ActionKind::backward_weight) continue;
        last = static_cast<int>(q);
        most = std::max(most, need(s, largest(actions[q])).weight + fused_bytes(actions[q]));
      }
      if (last >= 0) held_.add({first_weight_gradients(s), last, others * most});
    }
  }

  void add_fullest() {
    for (const planner::Holding::Stretch& stretch : held_.fullest())
      if (stretch.microbatch == planner::Holding::kGradients)
        contents_.gradients_bytes += stretch.bytes;
      else
        (stretch.microbatch < 0 ? contents_.workspace_bytes : contents_.activations_bytes[stretch.microbatch]) += stretch.bytes;
  }

  // What the recomputed layers would save without recomputation.
  std::int64_t dropped_bytes(int s, int microbatch) {
    if (stage(s).recompute.mode == Recompute::Mode::all) return need(s, microbatch).saved;
    std::int64_t bytes = 0;
    for (const int layer : stage(s).recompute.layers) bytes += cost_.saved_activation_bytes(index_, layer, layer + 1, samples(microbatch));
    return bytes;
  }

  struct Known {
    int stage = 0;
    int samples = 0;
    planner::StageNeed need;
  };

  const planner::StageNeed& need(int s, int microbatch) {
    for (const Known& known : needs_)
      if (known.stage == s && known.samples == samples(microbatch)) return known.need;
    const int size = samples(microbatch);
    return needs_.emplace_back(s, size, planner::stage_need(cost_, index_, stage(s).first_layer, stage(s).last_layer, size, splits_)).need;
  }

  // True if only the next stage needs the stage's output.
  [[nodiscard]] bool drops_output(int s, int microbatch) const {
    return recomputes(stage(s).recompute, microbatch) ||
           planner::dropped_output(cost_, index_, stage(s).last_layer - 1, samples(microbatch)) > 0;
  }

  void add_activations(int s) {
    for (int i = 0; i < plan_.num_microbatches(); ++i) {
      if (!mine(s, i)) continue;
      const int forward = forward_at_[slot(s, i)];
      const int gradient = gradient_at_[slot(s, i)];
      const int release = release_at_[slot(s, i)];
      const bool recomputed = recomputes(stage(s).recompute, i);
      const std::int64_t saved = need(s, i).saved;
      const std::int64_t held = need(s, i).held;
      const std::int64_t kept = recomputed ? cost_.saved_activation_bytes(index_, stage(s), samples(i)) : saved;
      held_.add({forward, release, kept, i});
      // A split backward holds the products' inputs and the gradients of their outputs until the weight gradients have run.
      if (gradient < release) held_.add({gradient, release, held - saved, i});
      // What recomputation drops is held during the forward, and again during the backward.
      if (recomputed) {
        const std::int64_t dropped = dropped_bytes(s, i);
        held_.add({forward, forward, dropped, i});
        held_.add({gradient, release, dropped, i});
      }
      if (s + 1 < plan_.num_stages() && mine(s + 1, i)) add_passed_on(s, i);
    }
  }

  // If the next stage is on this device, too, it may need this stage's output longer than this stage does. This stage needs the gradient of
  // its output from the next stage's input gradients on; those count it while they run.
  void add_passed_on(int s, int i) {
    const auto at = slot(s, i), next = slot(s + 1, i);
    const bool splits = gradient_at_[at] < release_at_[at] && cost_.split_memory_measured(index_);
    const int gone = splits ? gradient_at_[at] : release_at_[at];
    const auto keep = [&](int from, int until, std::int64_t bytes) { held_.add({from, until, bytes, i}); };
    const int from = drops_output(s, i) ? forward_at_[at] : gone + 1;
    keep(from, needed_until(s + 1, i), boundary(stage(s).last_layer, i, false));
    keep(std::max(from, needed_until(s + 1, i) + 1), release_at_[next], held_input(s + 1, i));
    keep(gradient_at_[next], needed_until(s, i), boundary(stage(s).last_layer, i, true));
    keep(needed_until(s, i) + 1, release_at_[at], held_gradient(s, i));
  }

  // The last action of the row that needs all of the stage's input, and all of the gradient of its output. Behind the input gradients
  // only what weight gradients read of them is held.
  [[nodiscard]] int needed_until(int s, int i) const {
    return cost_.split_memory_measured(index_) ? gradient_at_[slot(s, i)] : release_at_[slot(s, i)];
  }
  [[nodiscard]] std::int64_t held_input(int s, int i) const {
    const int first = stage(s).first_layer;
    if (!cost_.split_memory_measured(index_)) return 0;
    return std::min(boundary(first, i, false), cost_.split_memory(index_, first, samples(i)).held_input_bytes);
  }
  [[nodiscard]] std::int64_t held_gradient(int s, int i) const {
    const int last = stage(s).last_layer;
    if (!cost_.split_memory_measured(index_)) return 0;
    return std::min(boundary(last, i, true), cost_.split_memory(index_, last - 1, samples(i)).held_gradient_bytes);
  }

  // An input may arrive as soon as the producer has run the backwards that precede its forward there. Those wait for this device's
  // backwards. A gradient, as soon as the producer has run the forwards that precede its backward; those wait for this device's forwards.
  std::int64_t receive_buffers(int s, bool gradients) {
    const int from = gradients ? s + 1 : s - 1;
    const int border = gradients ? stage(s).last_layer : stage(s).first_layer;
    planner::Holding buffers(row(device_).size());
    for (const int producer : stage(from).devices) {
      if (producer == device_) continue;
      int reached = -1;
      for (const Action& action : row(producer)) {
        const int i = action.microbatch;
        if (action.stage != from || action.kind == ActionKind::backward_weight || !mine(s, i)) continue;
        const std::size_t at = slot(s, i);
        if ((action.kind == ActionKind::forward) == gradients) {
          reached = std::max(reached, (gradients ? forward_at_ : gradient_at_)[at]);
        } else {
          buffers.add({reached + 1, needed_until(s, i), boundary(border, i, gradients)});
          buffers.add({needed_until(s, i) + 1, release_at_[at], gradients ? held_gradient(s, i) : held_input(s, i)});
        }
      }
    }
    return buffers.most();
  }

  // Adds the workspace of each action, and the tensors that it or the action before it sends: at most two, one being copied and one
  // waiting for the lane. What the sender copies itself exists no longer than what its action needs.
  void add_running() {
    std::int64_t sent_before = 0;
    std::vector<bool> has_gradients(plan_.stages.size());
    for (std::size_t q = 0; q < row(device_).size(); ++q) {
      const Action& action = row(device_)[q];
      const std::int64_t sends = this->sends(action);
      const bool gone = sends > 0 && copies_itself(action);
      const std::int64_t sent = gone ? 0 : 2 * sends;
      // Where devices help, the weights' gradients are held from the first input gradients on.
      const bool made = has_gradients[as_index(action.stage)] || (action.kind == ActionKind::backward_weight && helpers() > 0);
      const std::int64_t running = std::max(gone ? sends : 0, running_bytes(action, made) + fused_bytes(action));
      held_.add({static_cast<int>(q), static_cast<int>(q), running + std::max(sent, sent_before)});
      sent_before = sent;
      if (releases(action.kind)) has_gradients[as_index(action.stage)] = true;
    }
  }

  // The micro-batch of the action that has most samples.
  [[nodiscard]] int largest(const Action& action) const {
    const auto sizes = plan_.microbatch_sizes.begin() + action.microbatch;
    return action.microbatch + static_cast<int>(std::max_element(sizes, sizes + action.further + 1) - sizes);
  }

  [[nodiscard]] std::int64_t fused_bytes(const Action& action) const {
    if (action.further == 0) return 0;
    const auto sizes = plan_.microbatch_sizes.begin() + action.microbatch;
    const planner::FusedGroup group{1 + action.further, samples(largest(action)), std::accumulate(sizes, sizes + action.further + 1, 0)};
    std::int64_t most = 0;
    for (int layer = stage(action.stage).first_layer; layer < stage(action.stage).last_layer; ++layer)
      most = std::max(most, planner::fused_bytes(cost_, index_, layer, group));
    return most;
  }

  [[nodiscard]] std::int64_t running_bytes(const Action& action, bool has_gradients) {
    const planner::StageNeed& need = this->need(action.stage, largest(action));
    switch (action.kind) {
      case ActionKind::forward:
        return need.forward;
      case ActionKind::backward:
        return has_gradients ? need.backward : need.first_backward;
      case ActionKind::backward_input:
        return need.input;
      case ActionKind::backward_weight:
        return has_gradients ? need.weight : need.first_weight;
    }
    return 0;
  }

  // Bytes that an action sends and nothing else counts: an output that is kept for backward is counted there.
  std::int64_t sends(const Action& action) {
    const int s = action.stage;
    const int i = action.microbatch;
    if (action.kind == ActionKind::forward) {
      const bool leaves = s + 1 < plan_.num_stages() && !mine(s + 1, i);
      return leaves && drops_output(s, i) ? boundary(stage(s).last_layer, i, false) : 0;
    }
    const bool leaves = s > 0 && !mine(s - 1, i) && action.kind != ActionKind::backward_weight;
    return leaves ? boundary(stage(s).first_layer, i, true) : 0;
  }

  // True if the device copies what the action sends before its next action.
  [[nodiscard]] bool copies_itself(const Action& action) const {
    const int to = action.stage + (action.kind == ActionKind::forward ? 1 : -1);
    return cost_.sender_copies(index_, cost_.device_index(plan_.devices[as_index(device_of(stage(to), action.microbatch))]));
  }

  const Plan& plan_;
  const CostModel& cost_;
  int device_;
  int index_;
  planner::Holding held_;
  PeakContents contents_;
  std::vector<int> forward_at_;   // index in this device's row, per stage and micro-batch
  std::vector<int> gradient_at_;  // likewise, of the action that makes the gradient of the input
  std::vector<int> release_at_;   // likewise, of the action that reads the activations last
  std::vector<Known> needs_;
  bool splits_ = false;
};

}  // namespace

std::int64_t PeakContents::total() const {
  std::int64_t sum =
      parameters_bytes + gradients_bytes + optimizer_bytes + buffers_bytes + communication_buffer_bytes + workspace_bytes + reserve_bytes;
  for (const auto& [microbatch, bytes] : activations_bytes) sum += bytes;
  return sum;
}

std::vector<PeakContents> CostModel::peak_contents(const Plan& plan) const {
  require_countable(plan.global_batch_size());
  std::vector<PeakContents> contents;
  for (int d = 0; d < static_cast<int>(plan.devices.size()); ++d) contents.push_back(DevicePeak(plan, *this, d).contents());
  return contents;
}

std::vector<MemoryLevels> CostModel::memory_levels(const Plan& plan) const {
  require_countable(plan.global_batch_size());
  std::vector<MemoryLevels> levels;
  for (int d = 0; d < static_cast<int>(plan.devices.size()); ++d) levels.push_back(DevicePeak(plan, *this, d).levels());
  return levels;
}

std::int64_t CostModel::peak_bytes(const Plan& plan, int device) const {
  require_countable(plan.global_batch_size());
  return DevicePeak(plan, *this, device).contents().total();
}

std::vector<std::int64_t> CostModel::peak_bytes(const Plan& plan) const {
  std::vector<std::int64_t> peaks;
  for (const PeakContents& contents : peak_contents(plan)) peaks.push_back(contents.total());
  return peaks;
}

}  // namespace mptune
