#include "planner/cost/peak_bytes.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "planner/cost/boundary_memory.h"
#include "planner/cost/device_row.h"
#include "planner/cost/holding.h"
#include "planner/cost/replica_costs.h"
#include "planner/cost/stage_need.h"
#include "planner/plan/helping.h"
#include "planner/plan/offload.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

constexpr std::int64_t kSpareBuffers = 1 << 20;

// Adds up the bytes of one device.
class DevicePeak {
 public:
  DevicePeak(const Plan& plan, const CostModel& cost, int device)
      : plan_(plan),
        cost_(cost),
        row_(plan, device),
        boundaries_(row_, cost),
        index_(cost.device_index(plan.devices[as_index(device)])),
        offloaded_(offloaded(plan, device)),
        held_(row_.actions().size()),
        fetched_(row_.actions().size()) {}
  DevicePeak(const DevicePeak&) = delete;  // its parts refer to each other
  DevicePeak& operator=(const DevicePeak&) = delete;

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
      if (!runs(s)) continue;
      add_owned(s);
      add_gradients(s);
      add_activations(s);
    }
    for (const StageFlow& flow : boundaries_.flows()) {
      if (runs(flow.back)) add_received(flow, false);
      if (runs(flow.front) && flow.needs_gradient) add_received(flow, true);
      for (int i = 0; runs(flow.front) && runs(flow.back) && i < plan_.num_microbatches(); ++i)
        if (row_.mine(flow.front, i) && row_.mine(flow.back, i)) boundaries_.add_passed_on(flow, i, held_);
    }
    contents_.communication_buffer_bytes += fetched_.most();
    contents_.library_bytes = device_class().library_bytes + communicators();
    add_running();
    add_helpers();
  }

  [[nodiscard]] bool runs(int s) const { return std::ranges::count(stage(s).devices, row_.device()) > 0; }

  [[nodiscard]] std::int64_t reserve_of(std::int64_t bytes) const {
    return static_cast<std::int64_t>(std::ceil(static_cast<double>(bytes) * std::max(0.0, device_class().allocator_reserve)));
  }

  /// Returns the bytes of NCCL's buffers. The runtime connects two GPUs of different ranks, in both directions, where their stages exchange
  /// anything. It also connects the replicas of a stage on different ranks, whose sums are taken to need as much as their messages would.
  [[nodiscard]] std::int64_t communicators() const {
    if (!cost_.copies().has_communicators()) return 0;
    const auto bytes_with = [&](int other) {
      return cost_.copies().communicator_bytes(index_, cost_.device_index(plan_.devices[as_index(other)]));
    };
    std::set<int> partners;
    for (const StageFlow& flow : boundaries_.flows())
      for (int i = 0; i < plan_.num_microbatches(); ++i) {
        if (row_.mine(flow.front, i)) partners.insert(device_of(stage(flow.back), i));
        if (row_.mine(flow.back, i)) partners.insert(device_of(stage(flow.front), i));
      }
    std::int64_t bytes = 0;
    for (const int partner : partners) bytes += bytes_with(partner);
    for (int s = 0; s < plan_.num_stages(); ++s) {
      if (!runs(s)) continue;
      std::int64_t of_sum = 0;
      for (const int replica : stage(s).devices) of_sum = std::max(of_sum, bytes_with(replica));
      bytes += of_sum;
    }
    return bytes;
  }

  [[nodiscard]] const DeviceClass& device_class() const { return cost_.device_class(index_); }
  [[nodiscard]] const Stage& stage(int s) const { return row_.stage(s); }
  [[nodiscard]] const std::vector<Action>& actions() const { return row_.actions(); }
  [[nodiscard]] int samples(int microbatch) const { return row_.samples(microbatch); }

  // A GPU keeps its buffers for later copies, and has one more than are full at once: a copy may arrive while the last one is read. Buffers
  // of two sizes don't replace each other, except for a MiB (profiler/device/communication_buffers.cc).
  void add_received(const StageFlow& flow, bool gradients) {
    if (cost_.in_host_memory(index_)) return boundaries_.add_received(flow, gradients, held_);
    Holding buffers(actions().size());
    boundaries_.add_received(flow, gradients, buffers);
    if (buffers.most() == 0) return;
    const auto [least, most] = std::ranges::minmax(plan_.microbatch_sizes);
    contents_.communication_buffer_bytes += buffers.most() + flow.bytes(most, gradients) + (least < most ? kSpareBuffers : 0);
  }

  // Adds parameters, the optimizer's state (on the replicas that update them) and buffers, with every micro-batch's statistics until the
  // end of the step. On stages that read inputs of the model it adds the samples.
  void add_owned(int s) {
    const std::int64_t parameters = parameters_bytes(s);
    if (!shares_memory_with_earlier_replica(s)) contents_.parameters_bytes += parameters;
    if (updates(s))
      contents_.optimizer_bytes += static_cast<std::int64_t>(cost_.profile().optimizer_state_factor * static_cast<double>(parameters));
    contents_.communication_buffer_bytes += messages_between_ranks(s, parameters);
    for (int layer = stage(s).first_layer; layer < stage(s).last_layer; ++layer) {
      const ProfileLayer& described = cost_.profile().layers[as_index(layer)];
      contents_.buffers_bytes += described.buffers_bytes * (described.batch_statistics ? 1 + row_.microbatches(s) : 1);
    }
    if (s + 1 == plan_.num_stages() && row_.microbatches(s) > 0)  // the gradient of the running micro-batch's loss beside all losses
      contents_.buffers_bytes += cost_.memory().loss_bytes() * (row_.microbatches(s) + 1);
    bool reads_inputs = false;
    for (int layer = stage(s).first_layer; layer < stage(s).last_layer; ++layer)
      reads_inputs = reads_inputs || cost_.tensors().reads_inputs(layer);
    for (int i = 0; reads_inputs && !cost_.in_host_memory(index_) && i < plan_.num_microbatches(); ++i)
      if (row_.mine(s, i)) contents_.buffers_bytes += samples(i) * cost_.tensors().input_bytes_per_sample();
    for (int i = 0; s + 1 == plan_.num_stages() && !cost_.in_host_memory(index_) && i < plan_.num_microbatches(); ++i)
      if (row_.mine(s, i)) contents_.buffers_bytes += samples(i) * cost_.profile().target_bytes_per_sample;
  }

  /// Returns the replicas as indices in the profile.
  [[nodiscard]] std::vector<int> replicas(int s) const {
    std::vector<int> indices;
    for (const int device : stage(s).devices) indices.push_back(cost_.device_index(plan_.devices[as_index(device)]));
    return indices;
  }

  [[nodiscard]] bool updates(int s) const {
    return std::ranges::any_of(updating_replicas(cost_, replicas(s)),
                               [&](int r) { return stage(s).devices[as_index(r)] == row_.device(); });
  }

  /// Returns the bytes that lie in messages between ranks. Each of R ranks that update the parameters has the first gradients that have
  /// come for its part of the sum, and the next ones. If one rank updates them, it has the parameters on the way to each of the other
  /// ranks, and all gradients of one of these. Messages of a GPU lie in host memory, except a sum that begins with gradients of another
  /// rank.
  [[nodiscard]] std::int64_t messages_between_ranks(int s, std::int64_t parameters) const {
    std::set<int> ranks;
    for (const int device : replicas(s)) ranks.insert(cost_.rank_of(device));
    const auto others = static_cast<std::int64_t>(ranks.size()) - 1;
    if (others == 0 || !cost_.profile().network.empty()) return 0;
    const bool alone = updating_replicas(cost_, replicas(s)).size() == 1;
    const std::int64_t part = (parameters + others) / (others + 1);
    if (!cost_.in_host_memory(index_)) return updates(s) && !alone && stage(s).devices.front() != row_.device() ? part : 0;
    if (alone) return updates(s) ? parameters * others : parameters;
    return updates(s) ? 2 * part : 0;
  }

  [[nodiscard]] bool shares_memory_with_earlier_replica(int s) const {
    const std::vector<int>& devices = stage(s).devices;
    return std::any_of(devices.begin(), std::ranges::find(devices, row_.device()), [&](int other) { return shares_memory_with(other); });
  }

  [[nodiscard]] bool shares_memory_with(int other) const {
    const int index = cost_.device_index(plan_.devices[as_index(other)]);
    return other != row_.device() && cost_.in_host_memory(index_) && cost_.in_host_memory(index) &&
           cost_.rank_of(index_) == cost_.rank_of(index);
  }

  [[nodiscard]] std::int64_t parameters_bytes(int s) const { return cost_.parameters_bytes(stage(s).first_layer, stage(s).last_layer); }

  // A step begins without gradients. The first backward, or the first weight gradients, make them layer by layer, while they give back what
  // was held (see StageNeed). Gradients of parameters that stay with the input gradients come with the first input gradients.
  void add_gradients(int s) {
    const std::vector<Action>& actions = row_.actions();
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
      for (int layer = stage(s).first_layer; layer < stage(s).last_layer; ++layer) early += unsplit_bytes(cost_, layer);
      early = std::min(early, bytes);  // tied weights count in each of their layers
      const int at = static_cast<int>(input - actions.begin());
      held_.add({at, end, early, Holding::kGradients, at});
      bytes -= early;
    }
    held_.add({helped ? made : made + 1, end, bytes, Holding::kGradients, made});
  }

  // Returns the number of devices that compute this device's weight gradients, itself included; 0: only the weight actions of its row do.
  [[nodiscard]] int helpers() const {
    if (!plan_.options.idle_devices_help) return 0;
    const std::vector<int> groups = helping_groups(plan_.devices, plan_.options.threads);
    const int own = groups[as_index(row_.device())];
    return own < 0 ? 0 : static_cast<int>(std::ranges::count(groups, own));
  }

  // Returns the first action of the row during which a weight gradient of the stage may be computed, after its first input gradients.
  [[nodiscard]] int first_weight_gradients(int s) const {
    const std::vector<Action>& actions = row_.actions();
    const auto gradients = [&](const Action& action) { return action.stage == s && action.kind != ActionKind::forward; };
    const auto first = std::ranges::find_if(actions, gradients);
    return static_cast<int>(first - actions.begin()) + 1;
  }

  // Other devices may compute weight gradients at any time between a stage's first input gradients and its last weight action.
  void add_helpers() {
    const int others = helpers() - 1;
    for (int s = 0; s < plan_.num_stages() && others > 0; ++s) {
      const std::vector<Action>& actions = row_.actions();
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
    for (const Holding::Stretch& stretch : held_.fullest())
      if (stretch.microbatch == Holding::kGradients)
        contents_.gradients_bytes += stretch.bytes;
      else if (stretch.microbatch == Holding::kCopied)
        contents_.communication_buffer_bytes += stretch.bytes;
      else
        (stretch.microbatch < 0 ? contents_.workspace_bytes : contents_.activations_bytes[stretch.microbatch]) += stretch.bytes;
  }

  struct Known {
    int stage = 0;
    int samples = 0;
    StageNeed need;
    RecomputedNeed recomputed;  // used where the stage recomputes layers
  };

  const Known& known(int s, int microbatch) {
    const int size = samples(microbatch);
    for (const Known& known : needs_)
      if (known.stage == s && known.samples == size) return known;
    const Stage& of = stage(s);
    const StageNeed need = stage_need(cost_, index_, of.first_layer, of.last_layer, size, row_.splits());
    const bool recomputes = of.recompute.mode != Recompute::Mode::none;
    return needs_.emplace_back(s, size, need, recomputes ? recomputed_need(cost_, index_, of, size) : RecomputedNeed{});
  }

  const StageNeed& need(int s, int microbatch) { return known(s, microbatch).need; }

  void add_activations(int s) {
    for (int i = 0; i < plan_.num_microbatches(); ++i) {
      if (!row_.mine(s, i)) continue;
      const int forward = row_.forward_at(s, i);
      const int gradient = row_.gradient_at(s, i);
      const int release = row_.release_at(s, i);
      const bool recomputed = recomputes(stage(s).recompute, i);
      const std::int64_t saved = need(s, i).saved;
      const std::int64_t held = need(s, i).held;
      const std::int64_t kept = recomputed ? known(s, i).recomputed.kept : saved;
      const Offloaded* away = offloaded_at(s, i);
      if (away == nullptr) held_.add({forward, release, kept, i});
      if (away != nullptr) add_offloaded(*away, release, kept);
      const bool unfreed = away != nullptr && keeps_buffers();
      // A split backward holds the products' inputs and the gradients of their outputs until the weight gradients have run.
      if (gradient < release) held_.add({gradient, release, unfreed ? held : held - saved, i});
      // A whole backward holds what recomputation dropped piece by piece; the parts of a split one hold all of it.
      if (recomputed) held_.add({gradient, release, gradient < release ? known(s, i).recomputed.again : known(s, i).recomputed.piece, i});
    }
  }

  // A GPU keeps the buffers that activations come back to, for those of later micro-batches.
  void add_offloaded(const Offloaded& away, int release, std::int64_t bytes) {
    held_.add({away.forward, away.freed() - 1, bytes, away.microbatch});
    (keeps_buffers() ? fetched_ : held_).add({away.fetched(), release, bytes, away.microbatch});
  }

  [[nodiscard]] bool keeps_buffers() const { return !cost_.in_host_memory(index_); }

  [[nodiscard]] const Offloaded* offloaded_at(int s, int microbatch) const {
    const auto found =
        std::ranges::find_if(offloaded_, [=](const Offloaded& away) { return away.stage == s && away.microbatch == microbatch; });
    return found == offloaded_.end() ? nullptr : &*found;
  }

  // Adds the workspace of each action, and the tensors that it or the action before it sends: at most two, one being copied and one waiting
  // for the lane. What the sender copies itself exists no longer than what its action needs.
  void add_running() {
    std::int64_t sent_before = 0;
    std::vector<bool> has_gradients(plan_.stages.size());
    for (std::size_t q = 0; q < actions().size(); ++q) {
      const Action& action = actions()[q];
      const std::int64_t sends = boundaries_.sent_bytes(action);
      const bool gone = sends > 0 && boundaries_.copies_itself(action);
      if (keeps_buffers()) boundaries_.add_sent(static_cast<int>(q), held_);
      const std::int64_t sent = gone || keeps_buffers() ? 0 : 2 * sends;
      // Where devices help, the gradients of weights are held from the first input gradients on.
      const bool made = has_gradients[as_index(action.stage)] || (action.kind == ActionKind::backward_weight && helpers() > 0);
      const std::int64_t running = std::max(gone ? sends : 0, running_bytes(action, made) + fused_bytes(action));
      held_.add({static_cast<int>(q), static_cast<int>(q), running + std::max(sent, sent_before)});
      sent_before = sent;
      if (releases(action.kind)) has_gradients[as_index(action.stage)] = true;
    }
  }

  // Returns the micro-batch of the action that has most samples.
  [[nodiscard]] int largest(const Action& action) const {
    const auto sizes = plan_.microbatch_sizes.begin() + action.microbatch;
    return action.microbatch + static_cast<int>(std::max_element(sizes, sizes + action.further + 1) - sizes);
  }

  [[nodiscard]] std::int64_t fused_bytes(const Action& action) const {
    if (action.further == 0) return 0;
    const auto sizes = plan_.microbatch_sizes.begin() + action.microbatch;
    const FusedGroup group{1 + action.further, samples(largest(action)), std::accumulate(sizes, sizes + action.further + 1, 0)};
    std::int64_t most = 0;
    for (int layer = stage(action.stage).first_layer; layer < stage(action.stage).last_layer; ++layer)
      most = std::max(most, planner::fused_bytes(cost_, index_, layer, group));
    return most;
  }

  [[nodiscard]] std::int64_t running_bytes(const Action& action, bool has_gradients) {
    const StageNeed& need = this->need(action.stage, largest(action));
    switch (action.kind) {
      case ActionKind::forward:
        return recomputes(stage(action.stage).recompute, action.microbatch) ? known(action.stage, action.microbatch).recomputed.forward
                                                                            : need.forward;
      case ActionKind::backward:
        if (recomputes(stage(action.stage).recompute, action.microbatch)) {
          const RecomputedNeed& again = known(action.stage, action.microbatch).recomputed;
          return has_gradients ? again.backward : again.first_backward;
        }
        if (keeps_buffers() && offloaded_at(action.stage, action.microbatch) != nullptr)
          return has_gradients ? need.unfreed_backward : need.unfreed_first_backward;
        return has_gradients ? need.backward : need.first_backward;
      case ActionKind::backward_input:
        return need.input;
      case ActionKind::backward_weight:
        return has_gradients ? need.weight : need.first_weight;
    }
    return 0;
  }

  const Plan& plan_;
  const CostModel& cost_;
  DeviceRow row_;
  BoundaryMemory boundaries_;
  int index_;
  std::vector<Offloaded> offloaded_;
  Holding held_;
  Holding fetched_;  // bytes in buffers that stay
  PeakContents contents_;
  std::vector<Known> needs_;
};

}  // namespace

std::int64_t PeakContents::total() const {
  std::int64_t sum = parameters_bytes + gradients_bytes + optimizer_bytes + buffers_bytes + communication_buffer_bytes + workspace_bytes +
                     library_bytes + reserve_bytes;
  for (const auto& [microbatch, bytes] : activations_bytes) sum += bytes;
  return sum;
}

std::vector<PeakContents> peak_contents(const Plan& plan, const CostModel& cost) {
  cost.require_countable(plan.global_batch_size());
  std::vector<PeakContents> contents;
  for (int d = 0; d < static_cast<int>(plan.devices.size()); ++d) contents.push_back(DevicePeak(plan, cost, d).contents());
  return contents;
}

std::vector<MemoryLevels> memory_levels(const Plan& plan, const CostModel& cost) {
  cost.require_countable(plan.global_batch_size());
  std::vector<MemoryLevels> levels;
  for (int d = 0; d < static_cast<int>(plan.devices.size()); ++d) levels.push_back(DevicePeak(plan, cost, d).levels());
  return levels;
}

std::int64_t peak_bytes(const Plan& plan, const CostModel& cost, int device) {
  cost.require_countable(plan.global_batch_size());
  return DevicePeak(plan, cost, device).contents().total();
}

std::vector<std::int64_t> peak_bytes(const Plan& plan, const CostModel& cost) {
  std::vector<std::int64_t> peaks;
  for (const PeakContents& contents : peak_contents(plan, cost)) peaks.push_back(contents.total());
  return peaks;
}

}  // namespace mptune::planner
