#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/plan/plan.h"
#include "profiler/device/device.h"
#include "profiler/model/layers/graph_piece.h"
#include "profiler/model/layers/model.h"
#include "profiler/model/layers/saved_activations.h"
#include "tuner/runtime/stage/leaf_recorder.h"
#include "tuner/runtime/stage/pending_weights.h"

namespace mptune::tuner {

/// One replica of a stage: its layers, and the micro-batches between their forward and backward.
/// Tensors at its boundaries are detached, gradients are passed explicitly: no autograd graph leaves this object.
/// Used by its device's compute thread only, except for pending weight gradients and for the parameter accessors between steps.
class StageReplica {
 public:
  /// Clones the stage's layers of the model in the calling thread, the device's compute thread. `loss` is set for the last stage. The
  /// layers compute as `options` say. `weight_order`: this replica's micro-batches in the order in which they add weight gradients (see
  /// PendingWeights).
  StageReplica(const Model& model, Device& device, const Stage& stage, int index, int replica, std::optional<Loss> loss,
               const PendingWeights::Groups& weight_order, const ExecutionOptions& options);

  /// Runs the layers on detached inputs and keeps what backward needs. The last stage also computes the loss, which backward multiplies by
  /// `weight`, and returns nothing. The others return detached outputs; each keeps its `requires_grad`. `offload`: the saved activations
  /// will leave the device.
  [[nodiscard]] Tensors forward(const RunContext& context, Tensors inputs, const at::Tensor& target, double weight, bool offload);
  /// Returns what the forward of an offloaded micro-batch saved, to be copied to host memory.
  [[nodiscard]] Tensors saved_activations(int microbatch) { return in_flight_.at(microbatch).saved->storages(); }
  /// Frees the memory of the saved activations, and keeps `copies` of them.
  void free_saved(int microbatch, Tensors copies);
  /// Returns the copies that free_saved() kept, and gives them up.
  [[nodiscard]] Tensors take_copies(int microbatch) { return std::exchange(in_flight_.at(microbatch).in_host, {}); }
  /// Puts the saved activations back from `fetched`, which is on the device: the backward may run.
  void restore_saved(int microbatch, const Tensors& fetched) { in_flight_.at(microbatch).saved->restore(fetched); }
  /// Runs the layers without keeping anything for a backward, and returns their outputs; so does the last stage.
  [[nodiscard]] Tensors evaluate(const RunContext& context, Tensors inputs);
  /// Call it in place of the backward of a micro-batch without samples.
  void skip_backward(int microbatch) { pending_.add(microbatch, {}); }
  /// Recomputes the last segment's activations, if they were not saved: that needs no gradient from the next stage.
  void prepare_backward(int microbatch);
  /// Adds the micro-batch's weight gradients to the parameters' and returns the gradients of its inputs (undefined for those that need
  /// none). `gradients` are those of the outputs; empty for the last stage.
  [[nodiscard]] Tensors backward(int microbatch, Tensors gradients);
  /// Like backward(), but leaves weight gradients that can be computed apart to pending_weights().
  [[nodiscard]] Tensors backward_input(int microbatch, Tensors gradients);
  /// Computes the weight gradients that are left of a micro-batch, of those fused with it and of those before it in their order. Waits for
  /// other threads that compute some of them. Throws StepCancelled.
  void backward_weight(int microbatch);
  /// Computes all that can be computed of the weight gradients left so far, as backward_weight() does.
  void backward_all_weights();
  /// Any thread may take and compute weight gradients, with the device's number of intra-op threads.
  [[nodiscard]] PendingWeights& pending_weights() { return pending_; }
  /// Returns the index of the model's layer that holds a trained tensor.
  [[nodiscard]] int layer_of(const at::Tensor& weight) const { return layer_of_.at(weight.unsafeGetTensorImpl()); }
  /// Tells the device to copy the losses of this step to the host, all in one copy. Does not wait for it.
  void send_losses();
  /// Returns the loss of a micro-batch; call it once after send_losses(). Requires: this is the last stage, and the device is done with the
  /// copy.
  [[nodiscard]] double take_loss(int microbatch);

  /// Drops the saved tensors of all micro-batches.
  void abandon();
  void clear_gradients();
  void clear_gradients_of_copies();

  /// The parameters without tied weights that an earlier stage holds.
  [[nodiscard]] const std::vector<NamedTensor>& named_parameters() const { return parameters_; }
  [[nodiscard]] const std::vector<NamedTensor>& named_buffers() const { return buffers_; }
  /// Copies of tied weights that an earlier stage holds.
  [[nodiscard]] const std::vector<NamedTensor>& copies() const { return copies_; }
  /// All that get gradients: the parameters, then the copies.
  [[nodiscard]] const std::vector<at::Tensor>& trained() const { return trained_; }
  [[nodiscard]] int stage() const { return index_; }
  [[nodiscard]] int replica() const { return replica_; }
  [[nodiscard]] bool on_gpu() const { return on_gpu_; }
  [[nodiscard]] int first_layer() const { return stage_.first_layer; }
  /// Returns copies of the replica's layers, on the host, contiguous.
  [[nodiscard]] std::vector<ModelLayer> copied_layers() const;
  [[nodiscard]] std::vector<std::string> layer_names() const;
  /// Returns what ran last in the action: "layer 'fc'", "layers 'conv1' to 'conv4'", "the loss"; "" for nothing yet.
  [[nodiscard]] std::string last_layers() const;
  void begin_action() { last_ = {}; }

  [[nodiscard]] bool has_batch_statistics() const { return has_batch_statistics_; }
  /// Commits the statistics that all replicas of this stage saw in one step, in ascending order of micro-batches, to this replica's
  /// buffers. Does so for share `share` of `shares` shares of the layers; different shares may be committed at the same time.
  void commit_statistics(const std::vector<StageReplica*>& replicas, int share, int shares);
  /// Returns the statistics that this replica saw and has not committed, for a replica of another process, and gives them up.
  [[nodiscard]] Tensors take_statistics();
  /// Adds what take_statistics() of another replica returned, to be committed with its own.
  void add_statistics(const Tensors& taken);

  /// From the next step on, the loss's gradient, and so every other gradient, is multiplied by `scale`.
  void set_loss_scale(double scale) { loss_scale_ = scale; }

  /// Change it between steps only. The first one records nothing.
  void set_recorder(LeafRecorder recorder) { recorder_ = std::move(recorder); }
  [[nodiscard]] LeafRecorder& recorder() { return recorder_; }

 private:
  /// Neighbouring layers whose activations are saved, or recomputed, together.
  struct Segment {
    int first = 0;  ///< within the stage
    int last = 0;
    bool recompute = false;
  };
  struct SavedSegment {
    Segment segment;
    profiler::GraphPiece piece;
  };
  struct WeightedLoss {
    at::Tensor loss;
    double weight = 1;
  };
  struct InFlight {
    RunContext context;
    at::Tensor target;
    double weight = 1;
    std::vector<SavedSegment> segments;
    std::unique_ptr<profiler::SavedActivations> saved = nullptr;  ///< what an offloaded micro-batch saved
    Tensors in_host = {};                                         ///< copies of the saved activations
  };

  [[nodiscard]] std::unique_ptr<profiler::SavedActivations> saved_by(const Tensors& inputs, const at::Tensor& target) const;
  [[nodiscard]] std::vector<Segment> segments_for(int microbatch) const;
  [[nodiscard]] Tensors run_layers(const Segment& segment, Tensors values, const RunContext& context, EventKind kind);
  [[nodiscard]] bool ends_in_loss(const Segment& segment) const { return loss_ && segment.last == static_cast<int>(layers_.size()); }
  void rerun(InFlight& flight, SavedSegment& saved);
  [[nodiscard]] Tensors backward_through_segments(int microbatch, Tensors gradients, profiler::WeightGradients* aside);
  [[nodiscard]] profiler::WeightGradients split(const SavedSegment& saved, bool only_segment);
  template <class Take>
  void run_weights(const Take& take);
  void finish_weights_before(const SavedSegment& saved, const profiler::WeightGradients& aside);
  /// The layer where a segment's backward ends; the layers before it need no gradient.
  [[nodiscard]] int first_trained(const SavedSegment& saved) const;
  [[nodiscard]] at::Tensor loss_of(const Tensors& outputs, const InFlight& flight, EventKind kind);
  void collect_statistics(int layer, int microbatch);
  void check_written(int layer, const RunContext& context);

  Stage stage_;
  int index_;
  int replica_;
  std::optional<Loss> loss_;
  double loss_scale_ = 1;
  std::vector<ModelLayer> layers_;
  std::vector<NamedTensor> parameters_, copies_, buffers_;
  std::vector<at::Tensor> trained_;
  std::vector<at::Tensor> shared_;  ///< parameters that several layers of the stage use
  std::map<const c10::TensorImpl*, int> layer_of_;
  bool has_batch_statistics_ = false;
  bool on_gpu_ = false;
  std::map<int, InFlight> in_flight_;
  PendingWeights pending_;
  EventKind backward_kind_ = EventKind::backward;  ///< kind of the backward that runs
  std::map<int, WeightedLoss> losses_;
  std::vector<std::map<int, std::vector<BatchStatistics>>> statistics_;  ///< per layer, by micro-batch
  Segment last_;                                                         ///< the layers that ran last
  RunContext last_writing_;                                              ///< the last forward of a layer that writes a buffer
  LeafRecorder recorder_;
};

}  // namespace mptune::tuner
