#pragma once

#include <cstdint>
#include <future>

#include "profiler/model/layers/model.h"
#include "tuner/runtime/pipeline.h"
#include "tuner/runtime/training/epochs.h"
#include "tuner/worker/messages.h"

namespace mptune::tuner {

/// The samples of a training: the batch of each step, and those kept for validation. The next batch is put together while a step runs, in a
/// thread of this object's own. Use it from one thread.
class TrainingData {
 public:
  /// Takes the user's samples or synthetic ones. Throws Error where load_batch() does, and for fewer samples than a batch.
  TrainingData(const TrainRequest& request, const Model& model);
  TrainingData(const TrainingData&) = delete;
  TrainingData& operator=(const TrainingData&) = delete;

  [[nodiscard]] const Epochs& epochs() const { return epochs_; }
  [[nodiscard]] Batch batch_of(std::int64_t step);
  /// Returns true if the end of an epoch is worth a report: samples are validated, or an epoch has several steps.
  [[nodiscard]] bool has_epochs() const { return validates() || epochs_.steps_per_epoch() > 1; }
  /// Adds loss and accuracy of the samples for validation, if there are any.
  void validate(Pipeline& pipeline, EpochFinished& epoch) const;

 private:
  /// Some of the samples of a file. They stay where they are, possibly on disk.
  struct Part {
    Batch all;
    at::Tensor indices;  ///< undefined: there are none
    [[nodiscard]] std::int64_t size() const { return indices.defined() ? indices.numel() : 0; }
    [[nodiscard]] Batch chosen(const at::Tensor& some) const;
  };
  static Part held(const TrainRequest& request, const Model& model, Part& training);
  [[nodiscard]] bool validates() const { return validation_.size() > 0; }
  [[nodiscard]] Batch made(std::int64_t step) const;

  Loss loss_;
  Part training_, validation_;
  std::int64_t batch_ = 0;
  Epochs epochs_;
  std::int64_t next_step_ = -1;
  std::future<Batch> next_;  ///< batch of next_step_
};

}  // namespace mptune::tuner
