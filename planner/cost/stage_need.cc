#include "planner/cost/stage_need.h"

#include <algorithm>
#include <vector>

#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

// Gradients of tied weights that are held while `layer` runs, in a backward of the layers [first, last). Autograd keeps the gradient that a
// later layer made until an earlier one has made its own, and sums both into a third tensor.
struct TiedGradients {
  std::int64_t waiting = 0;  // gradients that layers after this one made
  std::int64_t sums = 0;     // sums of these and of the gradients that this layer makes
};

TiedGradients tied_gradients(const CostModel& cost, int first, int last, int layer) {
  TiedGradients gradients;
  for (const TiedParameters& tied : cost.profile().tied_parameters) {
    if (tied.earlier_layer < first || tied.layer >= last) continue;
    if (tied.earlier_layer <= layer && layer < tied.layer) gradients.waiting += tied.bytes;
    if (tied.earlier_layer == layer) gradients.sums += tied.bytes;
  }
  return gradients;
}

class StageLayers {
 public:
  StageLayers(const CostModel& cost, int device, int first, int last, int samples)
      : cost_(cost), device_(device), first_(first), last_(last), samples_(samples) {}

  [[nodiscard]] StageNeed need(bool split) const {
    StageNeed need;
    add_whole(need);
    if (!split) return need;
    need.held = cost_.memory().held_bytes(device_, first_, last_, samples_);
    if (cost_.memory().split_memory_measured(device_)) {
      need.input = most_of_input_gradients(need.held) - need.held;
      need.weight = most_of_weight_gradients(need.held, false) - need.held;
      need.first_weight = most_of_weight_gradients(need.held, true) - need.held;
    } else {
      need.input = need.weight = cost_.memory().workspace_bytes(device_, first_, last_, samples_);
      need.first_weight = need.weight + cost_.parameters_bytes(first_, last_);
    }
    // One of the gradients waits for the other, in a sum of its own. The first ones count the waiting one, or the sum, already.
    std::int64_t tied = 0;
    for (int layer = first_; layer < last_; ++layer) tied += tied_gradients(cost_, first_, last_, layer).sums;
    need.weight += 2 * tied;
    need.first_weight += tied;
    return need;
  }

 private:
  [[nodiscard]] std::int64_t saved(int first, int last) const {
    return cost_.memory().saved_activation_bytes(device_, first, last, samples_);
  }
  [[nodiscard]] std::int64_t gradient_behind(int layer) const {
    return layer + 1 < last_ ? cost_.boundary_bytes(layer + 1, samples_, true) : 0;
  }
  [[nodiscard]] std::int64_t dropped(int layer) const { return dropped_output(cost_, device_, layer, samples_); }

  // The gradients of a stage's own output are counted where they are received.
  [[nodiscard]] std::int64_t held_by(int layer, const SplitMemory& memory) const {
    return memory.held_bytes - (layer + 1 == last_ ? memory.held_gradient_bytes : 0);
  }

  void add_whole(StageNeed& need) const {
    std::int64_t kept = 0, forward = 0, backward = 0, first_backward = 0;
    for (int layer = first_; layer < last_; ++layer) {
      const std::int64_t workspace = cost_.memory().workspace_bytes(device_, layer, layer + 1, samples_);
      kept += saved(layer, layer + 1);
      forward = std::max(forward, kept + workspace);
      const std::int64_t before = kept - dropped(layer) + gradient_behind(layer);
      const TiedGradients tied = tied_gradients(cost_, first_, last_, layer);
      const std::int64_t running = workspace + tied.waiting + tied.sums;
      backward = std::max(backward, before + running);
      need.unfreed_backward = std::max(need.unfreed_backward, gradient_behind(layer) + running);
      const std::int64_t gradients = cost_.parameters_bytes(layer + 1, last_) + tied.sums;
      const std::int64_t making = gradients + cost_.memory().first_backward_bytes(device_, layer, samples_);
      first_backward = std::max(first_backward, before + making);
      need.unfreed_first_backward = std::max(need.unfreed_first_backward, gradient_behind(layer) + making);
    }
    need.saved = kept - dropped(last_ - 1);
    need.forward = forward - need.saved;
    need.backward = backward - need.saved;
    need.first_backward = first_backward - need.saved;
  }

  // `behind` is what the layers after the current one hold, except its output; `kept` has the output unless the layer's backward does not
  // need it.
  [[nodiscard]] std::int64_t most_of_input_gradients(std::int64_t held) const {
    std::int64_t kept = saved(first_, last_), behind = 0, output = 0, most = held;
    for (int layer = last_; layer-- > first_;) {
      const SplitMemory memory = cost_.memory().split_memory(device_, layer, samples_);
      const std::int64_t freed = dropped(layer) > 0 ? dropped(layer) - output : 0;
      most = std::max(most, kept - freed + behind + gradient_behind(layer) + memory.input_workspace_bytes);
      kept -= saved(layer, layer + 1);
      behind += output + held_by(layer, memory) - memory.held_input_bytes;
      output = memory.held_input_bytes;
    }
    return most;
  }

  // The layers may run in any order: those whose gradients take more than they hold may come first. Gradients of tied weights count in
  // every layer that makes them.
  [[nodiscard]] std::int64_t most_of_weight_gradients(std::int64_t held, bool first) const {
    std::int64_t more = 0, running = 0;
    for (int layer = first_; layer < last_; ++layer) {
      const SplitMemory memory = cost_.memory().split_memory(device_, layer, samples_);
      const std::int64_t gradients = first ? cost_.parameters_bytes(layer, layer + 1) - unsplit_bytes(cost_, layer) : 0;
      // The stage's own input counts where it came from until all weight gradients have run.
      const std::int64_t freed = held_by(layer, memory) - (layer == first_ ? memory.held_input_bytes : 0);
      more += std::max<std::int64_t>(0, gradients - freed);
      running = std::max(running, std::min(gradients, freed) + memory.weight_workspace_bytes);
    }
    return held + more + running;
  }

  const CostModel& cost_;
  int device_;
  int first_;
  int last_;
  int samples_;
};

// The layers of a stage that computes some of them again.
class RecomputedLayers {
 public:
  RecomputedLayers(const CostModel& cost, int device, const Stage& stage, int samples)
      : cost_(cost), device_(device), stage_(stage), samples_(samples) {
    for (int layer = stage.first_layer; layer < stage.last_layer; ++layer) {
      again_.push_back(recomputes_layer(stage.recompute, layer));
      saved_.push_back(cost.memory().saved_activation_bytes(device, layer, layer + 1, samples));
    }
  }

  [[nodiscard]] RecomputedNeed need() const {
    RecomputedNeed need;
    add_forward(need);
    add_backward(need);
    const int last = stage_.last_layer - 1;
    (again(last) ? need.again : need.kept) -= dropped_output(cost_, device_, last, samples_);
    need.forward -= need.kept;
    need.backward -= need.kept;
    need.first_backward -= need.kept;
    need.piece = std::min({need.piece, need.backward, need.first_backward});
    need.backward -= need.piece;
    need.first_backward -= need.piece;
    return need;
  }

 private:
  [[nodiscard]] bool again(int layer) const { return again_[as_index(layer - stage_.first_layer)]; }
  [[nodiscard]] std::int64_t saved(int layer) const { return saved_[as_index(layer - stage_.first_layer)]; }
  [[nodiscard]] bool behind_piece(int layer) const { return layer > stage_.first_layer && again(layer - 1); }
  // The stage's own input is not counted.
  [[nodiscard]] std::int64_t input(int layer) const { return cost_.boundary_bytes(layer, samples_, false); }
  [[nodiscard]] std::int64_t input_of_piece(int layer) const { return !again(layer) && behind_piece(layer) ? input(layer) : 0; }

  void add_forward(RecomputedNeed& need) const {
    for (int layer = stage_.first_layer; layer < stage_.last_layer; ++layer) {
      need.kept += input_of_piece(layer) + (again(layer) ? 0 : saved(layer));
      const std::int64_t made = again(layer)
                                    ? cost_.memory().bare_forward_bytes(device_, layer, samples_) + (behind_piece(layer) ? input(layer) : 0)
                                    : cost_.memory().workspace_bytes(device_, layer, layer + 1, samples_);
      need.forward = std::max(need.forward, need.kept + made);
    }
  }

  void add_backward(RecomputedNeed& need) const {
    std::int64_t now = need.backward = need.first_backward = need.kept;
    for (int last = stage_.last_layer, first = last; last > stage_.first_layer; last = first) {
      std::int64_t held = 0;
      do held += saved(--first);
      while (first > stage_.first_layer && again(first - 1) == again(last - 1));
      if (again(first)) {
        now += held;
        need.again += held;
        need.piece = std::max(need.piece, held);
      }
      for (int layer = last; layer-- > first; now -= saved(layer)) add_layer(need, {first, last}, layer, now);
      now -= input_of_piece(first);
    }
  }

  struct Piece {
    int first = 0;
    int last = 0;
  };

  // Adds what is needed while the backward is at a layer of a piece and `now` is held.
  void add_layer(RecomputedNeed& need, const Piece& piece, int layer, std::int64_t now) const {
    const TiedGradients tied = tied_gradients(cost_, piece.first, piece.last, layer);
    const std::int64_t of_output = layer + 1 < stage_.last_layer ? cost_.boundary_bytes(layer + 1, samples_, true) : 0;
    const std::int64_t before = now - dropped_output(cost_, device_, layer, samples_) + of_output + tied.sums;
    const std::int64_t made = cost_.parameters_bytes(layer + 1, stage_.last_layer);
    need.backward = std::max(need.backward, before + cost_.memory().workspace_bytes(device_, layer, layer + 1, samples_) + tied.waiting);
    need.first_backward = std::max(need.first_backward, before + made + cost_.memory().first_backward_bytes(device_, layer, samples_));
  }

  const CostModel& cost_;
  int device_;
  const Stage& stage_;
  int samples_;
  std::vector<bool> again_;  // by layer of the stage
  std::vector<std::int64_t> saved_;
};

}  // namespace

RecomputedNeed recomputed_need(const CostModel& cost, int device, const Stage& stage, int samples) {
  return RecomputedLayers(cost, device, stage, samples).need();
}

std::int64_t dropped_output(const CostModel& cost, int device, int layer, int samples) {
  if (layer + 1 == cost.layers() || cost.memory().keeps_output(device, layer)) return 0;
  return std::min(cost.tensors().made_bytes(layer, samples), cost.memory().saved_activation_bytes(device, layer, layer + 1, samples));
}

std::int64_t kept_bytes(const CostModel& cost, int device, const Stage& stage, int samples) {
  if (stage.recompute.mode == Recompute::Mode::all) return 0;
  std::int64_t bytes = 0;
  bool before = false;
  for (int layer = stage.first_layer; layer < stage.last_layer; ++layer) {
    const bool again = recomputes_layer(stage.recompute, layer);
    if (!again) bytes += cost.memory().saved_activation_bytes(device, layer, layer + 1, samples);
    if (before && !again) bytes += cost.boundary_bytes(layer, samples, false);  // what a kept layer made is among what it saves
    before = again;
  }
  return bytes;
}

std::int64_t offloaded_bytes(const CostModel& cost, int device, const Stage& stage, int samples) {
  return cost.memory().saved_activation_bytes(device, stage.first_layer, stage.last_layer, samples) -
         dropped_output(cost, device, stage.last_layer - 1, samples);
}

std::int64_t unsplit_bytes(const CostModel& cost, int layer) {
  const ProfileLayer& described = cost.profile().layers[as_index(layer)];
  return std::min(described.unsplit_bytes, described.parameters_bytes);
}

StageNeed stage_need(const CostModel& cost, int device, int first_layer, int last_layer, int samples, bool split) {
  return StageLayers(cost, device, first_layer, last_layer, samples).need(split);
}

std::int64_t fused_bytes(const CostModel& cost, int device, int layer, const FusedGroup& group) {
  const std::int64_t parameters = cost.parameters_bytes(layer, layer + 1);
  const int size = group.largest_samples, further = group.microbatches - 1;
  if (parameters == 0) return 0;
  if (!cost.memory().split_memory_measured(device))
    return group.microbatches * std::min(cost.memory().held_bytes(device, layer, layer + 1, size), parameters) +
           further * cost.memory().workspace_bytes(device, layer, layer + 1, size);
  const SplitMemory one = cost.memory().split_memory(device, layer, size);
  if (one.fused_share < 0) return group.microbatches * std::min(one.held_bytes, parameters) + further * one.weight_workspace_bytes;
  if (one.fused_bytes == 0) return 0;
  const std::int64_t workspace =
      cost.memory().split_memory(device, layer, group.samples).weight_workspace_bytes - one.weight_workspace_bytes;
  return group.microbatches * std::min(one.fused_bytes, parameters) + std::max<std::int64_t>(0, workspace);
}

}  // namespace mptune::planner
