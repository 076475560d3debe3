#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "planner/plan.h"
#include "profiler/base/device_spec.h"
#include "profiler/base/index.h"
#include "profiler/trace/profile.h"
#include "profiler/trace/profile_tensors.h"
#include "profiler/trace/trace.h"

namespace mptune {

/// Costs of one layer at one micro-batch size on one device, interpolated. Each is a whole number of nanoseconds, so the costs of a stage,
/// which are sums over its layers, do not depend on the order in which they are added.
struct LayerTimes {
  double forward_s = 0;
  double backward_s = 0;         ///< gradients of inputs and weights in one
  double forward_busy_s = 0;     ///< with the other devices busy; equal to forward_s where that was not measured
  double backward_busy_s = 0;    ///< with the other devices busy; equal to backward_s where that was not measured
  double backward_input_s = 0;   ///< gradients of inputs alone; busy devices slow both parts as they slow the whole
  double backward_weight_s = 0;  ///< gradients of weights alone, after the gradients of inputs
};

/// The size of tensors that belong to a micro-batch.
struct TensorSize {
  std::int64_t bytes_per_sample = 0;
  std::int64_t fixed_bytes = 0;
  [[nodiscard]] std::int64_t bytes(int samples) const { return bytes_per_sample * samples + fixed_bytes; }
  TensorSize& operator+=(const TensorSize& other) {
    bytes_per_sample += other.bytes_per_sample;
    fixed_bytes += other.fixed_bytes;
    return *this;
  }
};

/// What a device holds at its peak, in bytes.
struct PeakContents {
  std::int64_t parameters_bytes = 0;
  std::int64_t gradients_bytes = 0;  ///< gradients of parameters; those that the running action makes are in its workspace
  std::int64_t optimizer_bytes = 0;
  /// Buffers of the layers, batch-norm statistics per micro-batch, the losses on the last stage, and on a GPU the step's samples and
  /// targets where its stages read them.
  std::int64_t buffers_bytes = 0;
  std::map<int, std::int64_t> activations_bytes;  ///< saved for backward or weight gradients, by micro-batch
  std::int64_t communication_buffer_bytes = 0;    ///< for inputs and gradients from other devices, and outputs that copies still read
  std::int64_t workspace_bytes = 0;               ///< workspace of the action that runs, and tensors on their way to other devices
  std::int64_t library_bytes = 0;                 ///< memory of CUDA's libraries: workspaces of cuBLAS, buffers of NCCL
  std::int64_t reserve_bytes = 0;                 ///< what the allocator holds beyond all that
  [[nodiscard]] std::int64_t total() const;
  bool operator==(const PeakContents&) const = default;
};

/// What a device holds over a step, in bytes.
struct MemoryLevels {
  std::int64_t before_bytes = 0;           ///< before its first action
  std::vector<std::int64_t> during_bytes;  ///< while each action of its row runs; the largest is the peak
  std::vector<std::int64_t> after_bytes;   ///< between each action and the next; after the last, until the step ends
  bool operator==(const MemoryLevels&) const = default;
};

/// Prices of layers, copies and memory, read out of a profile.
/// Time is interpolated linearly between measured micro-batch sizes (time per sample is not constant, and a larger size may be cheaper);
/// beyond them the nearest segment is continued, and extrapolated() is true.
/// Where only the whole backward was measured, input and weight gradients take the shares of it that they have at the nearest size where
/// they were measured. Where they were never measured for a layer with parameters, each takes half; in a layer without parameters the input
/// gradient takes all.
/// The model does not see a library that changes its kernels between two measured sizes, caches shared between layers, copies that slow
/// compute, allocator fragmentation beyond the class's reserve, or other load on the machine.
class CostModel {
 public:
  /// Copies what it needs of the profile. Throws Error if the profile has no layer, or a class without a cost for a layer.
  explicit CostModel(const Profile& profile);
  /// Prices plans in this variant. Throws Error as above, and where the profile has no costs in the variant.
  CostModel(const Profile& profile, const ExecutionVariant& variant);
  /// Prices this plan and plans with its options and devices. Throws Error as above, and where plan and profile differ in precision.
  CostModel(const Profile& profile, const Plan& plan);

  /// Returns how the priced layers compute. It has the most threads where numbers of threads other than the default differ.
  [[nodiscard]] ExecutionVariant variant() const;

  [[nodiscard]] int layers() const;
  /// True if a stage may begin at `layer`: 0, or where the profile does not forbid it.
  [[nodiscard]] bool may_cut(int layer) const { return may_cut_[as_index(layer)]; }
  /// Returns the index into the profile's devices of a device named in a plan. Throws Error where the profile does not know it.
  [[nodiscard]] int device_index(const std::string& name) const;
  [[nodiscard]] std::vector<int> device_indices(const std::vector<std::string>& names) const;
  /// True if the device's tensors lie in the host's memory: the device reads a step's samples, and parameters of other devices in the
  /// host's memory, where they lie. False for all devices of a network.
  [[nodiscard]] bool in_host_memory(int device) const;
  /// Returns the bytes that NCCL keeps on each of two GPUs of different ranks that send each other messages; 0 for other devices, or where
  /// they are not known.
  [[nodiscard]] std::int64_t communicator_bytes(int one, int other) const;
  /// True if any two devices have buffers of NCCL.
  [[nodiscard]] bool has_communicators() const { return has_communicators_; }
  /// Returns the rank of the process that has the device, among those that train together.
  [[nodiscard]] int rank_of(int device) const { return ranks_[as_index(device)]; }

  /// Throws Error where a step of `samples` samples, whatever its plan, may take more nanoseconds or bytes than 64 bits count (10^9 s, 2^60
  /// bytes: no real step). Whatever adds up times or bytes of whole steps (peak_bytes, simulation, partition, search) calls this first, and
  /// so throws this error, too.
  void require_countable(std::int64_t samples) const;

  [[nodiscard]] LayerTimes layer(int device, int layer, int samples) const;
  [[nodiscard]] bool extrapolated(int device, int samples) const;
  /// True if, for some layer with parameters, only the whole backward was measured and each part of a split one is taken as half of it.
  [[nodiscard]] bool assumes_halves() const { return assumes_halves_; }
  /// Returns the number of devices of the profile that were busy when `_busy` times were measured on `device`; 0 where they were not
  /// measured. Where devices of the profile share cores or GPUs, because a pool may be divided in several ways, a device counts weight()
  /// times.
  [[nodiscard]] int neighbours(int device) const;
  /// Returns 1; where devices share cores or GPUs, the device's cores, or its part of a GPU in units that do not depend on the division.
  [[nodiscard]] int weight(int device) const { return weights_[as_index(device)]; }

  /// True if every layer reads what the one before it computes, and nothing else (profile_tensors.h).
  [[nodiscard]] bool is_chain() const { return is_chain_; }
  /// Returns the tensors that layers compute and later layers read.
  [[nodiscard]] const std::vector<ProfileTensor>& tensors() const { return tensors_; }
  /// Returns what crosses the cut before layer `layer`, or with `gradients` the gradients that come back. A tensor that several layers
  /// after the cut read crosses it once, and crosses every cut up to the last of these layers.
  [[nodiscard]] const TensorSize& boundary(int layer, bool gradients) const { return (gradients ? gradients_ : outputs_)[as_index(layer)]; }
  [[nodiscard]] std::int64_t boundary_bytes(int layer, int samples, bool gradients) const {
    return boundary(layer, gradients).bytes(samples);
  }
  /// Returns the bytes that a layer computes and later ones read.
  [[nodiscard]] std::int64_t made_bytes(int layer, int samples) const { return made_[as_index(layer)].bytes(samples); }
  /// True if the layer reads nothing that other layers compute, but inputs of the model.
  [[nodiscard]] bool reads_inputs(int layer) const { return reads_inputs_[as_index(layer)]; }
  /// Returns the seconds of a copy of `bytes` from device to device; 0 on one device. Throws Error for a link that the profile does not
  /// know.
  [[nodiscard]] double copy_seconds(int source, int destination, std::int64_t bytes) const;
  /// Returns the index of the medium that this link shares with others; their copies queue on it in the order they are ready. -1: not
  /// shared.
  [[nodiscard]] int medium(int source, int destination) const;
  /// True if the sending device computes nothing while it copies; false for a link that the profile does not know.
  [[nodiscard]] bool sender_copies(int source, int destination) const;
  /// True if copies between the device's memory and the host's were measured, both ways, and the device computes meanwhile.
  [[nodiscard]] bool can_offload(int device) const;
  /// Returns the seconds of a copy between the device's memory and the host's. Throws Error where it was not measured.
  [[nodiscard]] double host_copy_seconds(int device, bool to_host, std::int64_t bytes) const;
  /// True if the device's compute thread makes these copies.
  [[nodiscard]] bool makes_host_copies(int device, bool to_host) const;
  /// Returns the seconds by which a copy to or from the host delays what the device computes meanwhile.
  [[nodiscard]] double host_copy_delay_seconds(int device, bool to_host, std::int64_t bytes) const;

  /// These return the fixed cost of an action, that of a step, and what the optimizer takes for one layer's parameters, in whole
  /// nanoseconds.
  [[nodiscard]] double action_seconds(int device) const;
  [[nodiscard]] double step_seconds(int device) const;
  [[nodiscard]] double optimizer_seconds(int device, int layer) const;
  /// Returns which of a stage's replicas on these devices add up the gradients, in parallel, each for an equal part of the parameters. On
  /// one rank all replicas do, unless the first is a GPU (of a class "cuda", "cuda/2"), which then does it alone. On several ranks those
  /// that update the parameters do. Replicas are given by position in `devices`.
  [[nodiscard]] std::vector<int> summing_replicas(std::span<const int> devices) const;
  /// Returns the most summing replicas that there can be with the first replica on this device.
  [[nodiscard]] int most_summing_replicas(int first_device, int replicas) const;
  /// Returns which of a stage's replicas on these devices update the parameters: the first replica of each rank, each with the whole sum.
  /// The first replica does it alone where devices are of two kinds, as their optimizers round differently. On paper all replicas do.
  /// Replicas are given by position in `devices`.
  [[nodiscard]] std::vector<int> updating_replicas(std::span<const int> devices) const;
  /// Returns the seconds that summing one layer's gradients takes `device`, one of the `summing` replicas, including the refresh of the
  /// replicas' parameters in the host's memory; in whole nanoseconds.
  [[nodiscard]] double reduce_seconds(int device, int layer, int replicas, int summing) const;
  /// Returns the seconds that a stage's messages between ranks take the busiest of these devices, one message after another; 0 where all
  /// replicas are of one rank. `bytes` is the size of the parameters, and of their gradients. Each of R ranks that update the parameters
  /// gets one of R parts of the gradients of all replicas elsewhere, and sends its sum to the other ranks. If one rank alone updates them,
  /// it gets all gradients, and sends the parameters to each of the other ranks.
  [[nodiscard]] double replica_messages_seconds(std::span<const int> devices, std::int64_t bytes) const;
  /// Returns the seconds that a layer's gradients take from the memories of the other replicas to the first one's, replica after replica,
  /// and its parameters to all others at the same time, tensor by tensor; in whole nanoseconds. 0 in the host's memory, on paper, and where
  /// the replicas are of several ranks.
  [[nodiscard]] double replica_copies_seconds(std::span<const int> devices, int layer) const;

  /// Returns the bytes of the parameters of layers [first, last) in one stage. Parameters that several of these layers share count once.
  [[nodiscard]] std::int64_t parameters_bytes(int first_layer, int last_layer) const;
  /// Returns the bytes kept from forward to backward of one micro-batch by layers [first, last) on a device.
  [[nodiscard]] std::int64_t saved_activation_bytes(int device, int first_layer, int last_layer, int samples) const;
  /// True if the layer's own backward needs its output, as far as was measured.
  [[nodiscard]] bool keeps_output(int device, int layer) const;
  /// Returns the bytes kept from forward to backward of one micro-batch by a stage with its recomputation: what the layers that are not
  /// recomputed save, their outputs included, and the inputs of those after recomputed layers. The stage's own input is not counted.
  [[nodiscard]] std::int64_t saved_activation_bytes(int device, const Stage& stage, int samples) const;
  /// True if what a split backward holds was measured for every layer of the device's class.
  [[nodiscard]] bool split_memory_measured(int device) const;
  /// Returns what a split backward of one layer holds. Requires: split_memory_measured().
  [[nodiscard]] SplitMemory split_memory(int device, int layer, int samples) const;
  /// Returns the seconds of a layer's weight gradients of fused micro-batches of these samples. The layer's convolutions that run once for
  /// all take their share (SplitMemory::fused_share) of what one micro-batch of all samples takes. The rest of each micro-batch is summed;
  /// where the share is unknown, that is all of it. The result leaves out how the layer's time is shared among its convolutions, and the
  /// copy that puts the micro-batches side by side.
  [[nodiscard]] double fused_weight_seconds(int device, int layer, std::span<const int> samples) const;
  /// Returns the bytes held between the input gradients and the weight gradients of one micro-batch by layers [first, last) on a device, as
  /// measured; the memory of their own input and of the gradients of their own output is not counted. Where it was not measured, these are
  /// all that was kept and, for layers with parameters, the gradients of what was kept.
  [[nodiscard]] std::int64_t held_bytes(int device, int first_layer, int last_layer, int samples) const;
  /// Returns the most bytes that a layer's forward without gradients needs beside its input; where it was not measured, what the layer
  /// saves and its workspace.
  [[nodiscard]] std::int64_t bare_forward_bytes(int device, int layer, int samples) const;
  /// Returns the most bytes of a layer's backward above what is held before it, including the gradients of its parameters that it makes;
  /// where it was not measured, the layer's workspace and these gradients.
  [[nodiscard]] std::int64_t first_backward_bytes(int device, int layer, int samples) const;
  /// Returns the bytes of a micro-batch's loss, which the runtime keeps to the end of the step; 0 where saved activations count it.
  [[nodiscard]] std::int64_t loss_bytes() const { return loss_bytes_; }
  /// Returns the largest number of bytes beyond what is held, while any of these layers runs.
  [[nodiscard]] std::int64_t workspace_bytes(int device, int first_layer, int last_layer, int samples) const;
  /// Returns the bytes of one sample of the model's input, from the profile's shape; 0 where the profile does not say.
  [[nodiscard]] std::int64_t input_bytes_per_sample() const { return input_bytes_per_sample_; }

  /// Returns the peak bytes on each of the plan's devices in a step that begins without gradients: parameters (not of a further replica in
  /// the host's memory, which reads the first one's), gradients from the first backward on, optimizer state, buffers, activations in flight
  /// by the schedule and statistics of batch norms, communication buffers of inputs and of gradients, workspace, libraries, the allocator's
  /// reserve. A received input, with the tensors for later stages that come with it, is held until the stage's backward ends. An output
  /// that no backward needs is held until it is sent. Activations that lie in host memory count while they are on the device
  /// (planner/offload.h); a GPU keeps the memory that they come back to. Within an action memory is counted layer by layer: a backward, or
  /// a part of a split one whose memory was measured, peaks where it has freed little and made much. The result is meant to be at least
  /// what is measured. It does not see more than two tensors of a CPU that wait for a slow link, what input gradients free before the
  /// weight gradients run where that was not measured, or storage that tensors share. Requires: a valid plan and schedule.
  [[nodiscard]] std::vector<std::int64_t> peak_bytes(const Plan& plan) const;
  /// Returns the peak bytes on one of the plan's devices. They depend on the layer ranges of its own stages only.
  [[nodiscard]] std::int64_t peak_bytes(const Plan& plan, int device) const;
  /// Returns what each of the plan's devices holds at its peak; total() is the peak.
  [[nodiscard]] std::vector<PeakContents> peak_contents(const Plan& plan) const;
  /// Returns what each of the plan's devices holds over the step. The largest of during_bytes is the peak, except on a device without
  /// actions. A GPU's communication buffers count as full all the time.
  [[nodiscard]] std::vector<MemoryLevels> memory_levels(const Plan& plan) const;

  [[nodiscard]] const Profile& profile() const { return profile_; }

 private:
  struct Point {
    double samples = 0;
    LayerTimes times;
    double saved_activation_bytes = 0;
    double workspace_bytes = 0;
    double held_bytes = 0;  // memory of a split backward, like the next four; negative: not measured
    double held_input_bytes = 0;
    double held_gradient_bytes = 0;
    double input_workspace_bytes = 0;
    double weight_workspace_bytes = 0;
    double fused_share = -1;  // negative: unknown
    double fused_bytes = 0;
    double bare_forward_bytes = -1;  // negative: not measured; this holds for the next one, too
    double first_backward_bytes = -1;
  };
  struct Segment {
    const Point* low = nullptr;
    const Point* high = nullptr;
    double share = 0;  ///< 0 at low, 1 at high; outside 0 .. 1 if extrapolated
  };
  struct Load {
    double seconds = 0;
    double bytes = 0;
  };
  [[nodiscard]] bool peaks_measured(int device, int layer) const;
  void add_curve(const DeviceClass& device_class, int layer);
  static void add_split(const LayerCost& cost, bool first, const Point& last, Point& point);
  void add_boundaries();
  void add_links();
  void add_layer_loads();
  void add_loads();
  [[nodiscard]] Load most_per_sample(int device, int layer) const;
  [[nodiscard]] double bytes_at(int device, int layer, int samples, double Point::*bytes) const;
  [[nodiscard]] const LinkCost& link(int source, int destination) const;
  [[nodiscard]] const HostCopies& host_copies(int device, bool to_host) const;
  void forbid_cuts();
  [[nodiscard]] std::size_t class_of(int device) const;
  [[nodiscard]] std::optional<DeviceSpec::Kind> kind_of(int device) const;
  [[nodiscard]] bool on_one_rank(std::span<const int> devices) const;
  [[nodiscard]] Segment segment(int device, int layer, int samples) const;
  void add_fused(int device, int layer, int samples, SplitMemory& memory) const;

  Profile profile_;
  std::vector<Point> points_;              ///< curves of all classes and layers, one after another
  std::vector<std::size_t> curve_starts_;  ///< start of the curve of class c and layer l: [c * layers + l], one more at the end
  std::vector<bool> split_measured_;       ///< per class: whether it was measured what split backwards hold
  bool assumes_halves_ = false;
  bool has_communicators_ = false;
  std::vector<int> neighbours_;  ///< per device
  std::vector<int> ranks_;       ///< per device
  std::vector<int> weights_;     ///< per device
  bool is_chain_ = true;
  std::vector<ProfileTensor> tensors_;
  std::vector<TensorSize> made_;                 ///< per layer
  std::vector<bool> reads_inputs_;               ///< per layer
  std::vector<TensorSize> outputs_;              ///< by layer that the cut lies before; nothing at both ends
  std::vector<TensorSize> gradients_;            ///< by layer that the cut lies before; nothing at both ends
  std::vector<int> link_of_;                     ///< [source * devices + destination]: index into Profile::links, -1: not known
  std::vector<bool> may_cut_;                    ///< by layer
  std::vector<std::int64_t> parameters_before_;  ///< parameters before each layer, tied weights in every layer; one more at the end
  std::int64_t input_bytes_per_sample_ = 0;
  std::int64_t loss_bytes_ = 0;
  Load per_sample_;  ///< upper bound over all plans
  Load fixed_;       ///< upper bound over all plans for the fixed part of a step
};

}  // namespace mptune
