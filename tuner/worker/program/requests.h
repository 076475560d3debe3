#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "profiler/device/device.h"
#include "profiler/model/loading/load_model.h"
#include "tuner/runtime/pipeline.h"
#include "tuner/runtime/training/training_state.h"
#include "tuner/worker/messages.h"

namespace torch::optim {
class Optimizer;
}

namespace mptune::tuner {

/// Sends a reply to mptune. Thread-safe.
using Replies = std::function<void(const Reply&)>;

/// Returns the model of a setup, built in or from a file; for sleeping devices, a model that sleeps as long as the setup's profile says.
[[nodiscard]] LoadedModel model_of(const TrainingSetup& setup);
/// Returns the loss and data that the setup names.
[[nodiscard]] StepSource source_of(const TrainingSetup& setup);
/// Returns all samples of the user, or one synthetic batch.
[[nodiscard]] Batch samples_for(const TrainingSetup& setup, const Model& model);
/// Returns the value of targets that do not count.
[[nodiscard]] std::int64_t ignored_target(const TrainingSetup& setup);
/// Returns the first samples of samples_for(), as many as the setup asks for. Throws Error where there are fewer.
[[nodiscard]] Batch batch_of(const TrainingSetup& setup, const Model& model);
[[nodiscard]] int batch_size_of(const TrainingSetup& setup, const Model& model);

using Devices = std::vector<std::shared_ptr<Device>>;

/// Returns the devices that a plan names, in its order. Throws Error for one that this machine does not have.
[[nodiscard]] Devices devices_of(const Plan& plan, const RankGroup* ranks = nullptr);

/// Returns the device among these that refused an allocation, the size, and the device's cap. The name is "" where none refused one.
[[nodiscard]] OutOfMemory out_of_memory_on(const Devices& devices, const TrainingSetup& setup);

/// Returns the peak bytes of all devices of the plan, whichever rank has them.
[[nodiscard]] std::vector<std::int64_t> peaks_of(const Pipeline& pipeline);

/// How long it may take to read files and to build models from them [s].
inline constexpr double kPatienceOfLoading = 300;

inline constexpr const char* kNeedLessMemory = "use more devices or stages, --recompute all, or a smaller split";

/// Runs `work` on the devices of one plan. LibTorch's out-of-memory error becomes PlanFailed where one of these devices refused memory.
void run_plan(const Devices& devices, const TrainingSetup& setup, const std::function<void()>& work);

/// A pipeline with its batch and one optimizer per stage: all that a timed step needs.
class TrainingRun {
 public:
  TrainingRun(const TrainingSetup& setup, Model model, const Plan& plan, Batch batch);
  /// `devices` are as many as plan.devices and in the same order. `ranks`: see PipelineOptions.
  TrainingRun(const TrainingSetup& setup, Model model, const Plan& plan, Batch batch, Devices devices,
              std::shared_ptr<RankGroup> ranks = nullptr);
  ~TrainingRun();
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  struct Step : StepResult {
    bool skipped = false;  ///< gradients were not all finite, and no parameter has changed: in fp16, or where limit_gradients() allows it
  };
  /// Runs forward, backward and optimizer of one global batch, with a scaled loss where the plan computes in fp16. `seconds` covers all
  /// three.
  [[nodiscard]] Step step();
  /// Does the same with another batch, of as many or fewer samples. The optimizers run with the next step, whose `seconds` include them, or
  /// before state() or anything else that reads the pipeline's parameters (Pipeline::update_with_next_step).
  [[nodiscard]] Step step(const Batch& batch);
  /// Gives the next steps the setup's learning rate times `factor`, and returns this product.
  double set_rate_factor(double factor);
  /// Sets what step() does with gradients before the optimizers run.
  void limit_gradients(double clip_norm, bool skip_non_finite);
  [[nodiscard]] Pipeline& pipeline() { return pipeline_; }
  [[nodiscard]] const Pipeline& pipeline() const { return pipeline_; }
  [[nodiscard]] TrainingState state() const;
  void go_on_from(const TrainingState& state);

 private:
  [[nodiscard]] Optimizers optimizers() const;

  Pipeline pipeline_;
  Batch batch_;
  std::vector<std::unique_ptr<torch::optim::Optimizer>> optimizers_;
  double learning_rate_ = 0;  ///< the setup's
  double rate_ = 0;           ///< learning rate of the next step
  double clip_norm_ = 0;
  bool skip_non_finite_ = false;
  std::optional<GradientScaler> scaler_;  ///< for fp16
};

void describe(const DescribeRequest& request, const Replies& reply);
void measure(const MeasureRequest& request, const Replies& reply);
void run_series(const SeriesRequest& request, const Replies& reply);
void record(const RecordRequest& request, const Replies& reply);
void train(const TrainRequest& request, const Replies& reply);
void check(const CheckRequest& request, const Replies& reply);
void diagnose(const DoctorRequest& request, const Replies& reply);

}  // namespace mptune::tuner
