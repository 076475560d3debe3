#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "planner/plan/file/plan_file.h"
#include "planner/plan/plan.h"
#include "profiler/base/rank.h"
#include "profiler/device/device.h"
#include "profiler/device/list/device_list.h"
#include "profiler/device/tag_scope.h"
#include "profiler/model/layers/model.h"
#include "profiler/trace/collect/host_collector.h"
#include "tuner/runtime/between/rank_group.h"

namespace mptune {

namespace profiler {
class GpuConnector;
}

enum class Accumulate { no, yes };

struct StepResult {
  double loss = 0;     ///< mean over the samples of the global batch, or over what the loss counts of them
  double seconds = 0;  ///< host time of the call
};

struct Evaluation {
  double loss = 0;  ///< as StepResult::loss
  Tensors outputs;  ///< as Pipeline::forward returns them
};

struct PipelineOptions {
  LinkThrottle link = {};  ///< of copies between devices of this process, and of saved activations to host memory and back
  std::map<std::string, std::int64_t> memory_bytes = {};  ///< cap by device name; caps of CPU devices need install_cpu_accounting()
  std::uint64_t seed = 0;                                 ///< of random layers
  bool strict = false;                                    ///< refuse a plan file made for another model instead of warning
  std::shared_ptr<RankGroup> ranks = nullptr;  ///< the processes that have the plan's devices (`1@cuda:0`); null: this one has all
  Reduce reduce = Reduce::ordered;             ///< between `ranks`
  /// Connects devices of different ranks that exchange tensors without the host's memory. Null: NCCL does, where there are GPUs.
  const profiler::GpuConnector* connector = nullptr;
};

/// Executes a plan: all micro-batches of a step, forward and backward, on the plan's devices at once. The result equals that of the
/// un-pipelined loop that sums in the plan's order, bit for bit on CPU unless the plan's options say otherwise (is_exact). Where rows split
/// the backward, gradients of the weights of products are summed in the order of the weight-gradient actions (W), all others in the order
/// of the input-gradient actions (I). One thread drives it; every other thread is owned and joined by this object.
///
/// With options.ranks each process makes a pipeline of the same model, plan and options, with the same batches. It trains the stages of
/// which it has a replica, with the same bits on every rank; where replicas are on devices that round differently (a CPU and a GPU, GPUs of
/// two models, CPUs with other vector instructions), the rank of the first replica alone trains the stage. on_stages() visits the stages
/// that a rank trains. Results with Reduce::all_reduce equal those with Reduce::ordered within rounding. Every rank calls the same
/// functions in the same order; step(), forward(), evaluate(), gradient_norm(), clip_gradients(), unscale_gradients() and copy_state_to()
/// wait for each other and return the same on all of them. An error on one rank ends the pipelines of all ranks, and their errors say why.
class Pipeline {
 public:
  /// Copies the model's layers to their devices, 4-d parameters in the plan's memory format. Throws Error for a plan that does not fit the
  /// model, and for a device that can't be had.
  Pipeline(Model model, const Plan& plan, const PipelineOptions& options = {});
  /// Checks the file's fingerprint as well: warns on stderr, or throws with `strict`.
  Pipeline(Model model, const PlanFile& file, const PipelineOptions& options = {});
  /// Runs on devices of the caller's: as many as plan.devices has, in the same order.
  Pipeline(Model model, const Plan& plan, const PipelineOptions& options, std::vector<std::shared_ptr<Device>> devices);
  ~Pipeline();
  Pipeline(Pipeline&&) noexcept;
  Pipeline& operator=(Pipeline&&) noexcept;

  /// Runs forward and backward of a batch. `inputs` are those of the first layer: samples in dimension 0, plan.global_batch_size() of them
  /// or fewer (the last batch of an epoch), best in host memory. Fewer samples are divided evenly over as few micro-batches as can hold
  /// them. Gradients are those of the mean loss; they replace the earlier ones, or add to them. If a stage throws (c10::OutOfMemoryError
  /// above a cap), the exception is rethrown once all devices have stopped. Gradients are then undefined; the next step works.
  StepResult step(const Tensors& inputs, const at::Tensor& target, Accumulate accumulate = Accumulate::no);
  /// Does the same for a model with one input.
  StepResult step(const at::Tensor& data, const at::Tensor& target, Accumulate accumulate = Accumulate::no);

  /// Returns the outputs of the last layer in evaluation mode: without gradients, without dropout, with running statistics in place of the
  /// batch's. Nothing that the layers keep changes. Any number of samples may be given; they go through the pipeline in batches of the
  /// plan's size. Outputs are in host memory, samples first; a scalar output comes once for each micro-batch. In other respects an exported
  /// program runs as it was exported, for training. Throws what step() throws.
  [[nodiscard]] Tensors forward(const Tensors& inputs);
  [[nodiscard]] at::Tensor forward(const at::Tensor& data);
  /// Does the same as forward(), and returns the loss of all samples, too.
  [[nodiscard]] Evaluation evaluate(const Tensors& inputs, const at::Tensor& target);

  /// Returns the parameters to train: those of a stage's first replica, or of its first replica here. Empty where this rank does not train
  /// the stage. The other replicas copy their values at the next step. Tied weights belong to the first stage that uses them and have the
  /// summed gradients of all stages; the other stages copy their values at the next step.
  [[nodiscard]] std::vector<at::Tensor> parameters(int stage) const;
  /// Returns all parameters that this rank trains, with their names, in the model's order. After a step they have gradients.
  [[nodiscard]] std::vector<NamedTensor> named_parameters() const;
  /// Returns parameters(stage) with their names.
  [[nodiscard]] std::vector<NamedTensor> named_parameters(int stage) const;
  [[nodiscard]] std::vector<NamedTensor> named_buffers() const;
  [[nodiscard]] std::vector<NamedTensor> named_buffers(int stage) const;
  /// Returns whether this rank leads the stage. Of the ranks that train a stage, the one with its first replica leads it; what all of them
  /// have alike is taken from there.
  [[nodiscard]] bool leads(int stage) const;
  /// Copies trained values back into a model of the same layers.
  void copy_state_to(Model& model) const;

  /// Runs `work` once for every stage that this rank trains, on the compute thread of its first device here, stages of different devices at
  /// the same time: the place for one optimizer per stage. If `work` throws for a stage, the exception is rethrown once all stages have
  /// ended their work. The parameters of the other stages have then changed, so go on from an earlier TrainingState.
  void on_stages(const std::function<void(int stage)>& work);

  /// Leaves `work` to the next step, which runs it for every stage before the stage's first action: stages do not wait for each other's
  /// optimizers, and the first one's forwards run while later ones update. Gradients stay until then. An exception of `work` ends that
  /// step, as one of on_stages() does.
  ///
  ///     device 0   ... B3 | update  F0  F1 ...
  ///     device 1   ...    | update..... F0 ...
  ///
  /// `work` is copied; what it refers to must live until it has run. evaluate(), forward(), on_stages(), parameters(),
  /// named_parameters(), copy_state_to() and replan() run it first if it has not run yet. After a failed step, the stages that had not run
  /// it still have it to run.
  void update_with_next_step(std::function<void(int stage)> work);
  /// Runs what update_with_next_step() left, if anything. Call it after the last step before tensors that were fetched earlier are read.
  void finish_update() const;

  /// Returns on rank 0 what each rank gives, by rank, and nothing on the other ranks. Without ranks, returns what is given.
  [[nodiscard]] std::vector<Tensors> on_first_rank(const Tensors& own) const;
  /// Returns on every rank, in host memory, what rank 0 gives. Without ranks, returns what is given.
  [[nodiscard]] Tensors from_first_rank(const Tensors& own) const;
  /// Returns what all ranks give, added up element by element.
  [[nodiscard]] std::vector<double> sum_over_ranks(const std::vector<double>& own) const;
  /// Returns false for a pipeline of several ranks.
  [[nodiscard]] bool has_all_stages() const;

  [[nodiscard]] const Plan& plan() const;
  [[nodiscard]] std::int64_t steps() const;  ///< completed so far
  /// Goes on as if `steps` steps were completed: random layers draw the numbers of the next step.
  void set_steps(std::int64_t steps);

  /// Returns the norm of all gradients of the last step as one vector, over all devices; not finite if one of them is not.
  [[nodiscard]] double gradient_norm();
  /// Scales all gradients so that gradient_norm() is at most `most`, and returns what it was. Gradients that are not finite stay as they
  /// are: leave the optimizers' step out then. It works like torch.nn.utils.clip_grad_norm_.
  double clip_gradients(double most);

  /// From the next step on, gradients are multiplied by `scale`, so that small ones do not vanish in fp16; the loss of a step is not.
  /// GradientScaler (tuner/runtime/training) chooses it.
  void set_loss_scale(double scale);
  [[nodiscard]] double loss_scale() const;
  /// Divides all gradients by the loss scale. Returns false if one of them, on any device, is not finite: leave the optimizers' step out
  /// then, on all devices alike. Call it once after each step, before the norm is taken.
  [[nodiscard]] bool unscale_gradients();

  /// Goes on with the same training under another plan: parameters, buffers, the number of steps and the loss scale stay. Call it between
  /// two steps, while nothing is recorded. The pipeline has new tensors afterwards, so that optimizers must be made anew
  /// (tuner/runtime/training). Throws what the constructor throws; the pipeline then goes on under its old plan.
  void replan(const Plan& plan);

  /// Returns where the last step threw: "stage 1, forward of micro-batch 2, layer 'fc'", "stage 1, optimizer"; "" if it did not, or failed
  /// outside of these.
  [[nodiscard]] std::string failed_at() const;

  /// Returns the peak bytes per device of the plan; 0 for a CPU device where accounting is not installed.
  [[nodiscard]] std::vector<std::int64_t> peak_bytes() const;
  void reset_peak_bytes();
  /// Returns the first device of the plan that ever refused an allocation, "" for none. refused_bytes() is the size it refused last, 0 for
  /// none.
  [[nodiscard]] std::string out_of_memory_device() const;
  [[nodiscard]] std::int64_t refused_bytes() const;

  /// Records into `collector` until called with null. `gpus`, if not null, gets the tags of the GPU work that is launched meanwhile. Both
  /// must outlive the recording.
  void record(HostCollector* collector, TagSink* gpus = nullptr);
  [[nodiscard]] std::vector<TraceDevice> trace_devices() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mptune
