#include "tuner/worker/program/training_data.h"

#include <ATen/ATen.h>
#include <c10/util/ParallelGuard.h>

#include <algorithm>
#include <utility>

#include "profiler/base/activity.h"
#include "profiler/base/error.h"
#include "profiler/base/sample_range_text.h"
#include "profiler/model/files/batch_file.h"
#include "tuner/runtime/step/batch_parts.h"
#include "tuner/runtime/training/accuracy.h"
#include "tuner/worker/program/requests.h"

namespace mptune::tuner {
namespace {

at::Tensor all_of(const Batch& samples) {
  return at::arange(samples.inputs.at(0).size(0), at::kLong);
}

at::Tensor sorted(const at::Tensor& indices) {
  return std::get<0>(indices.sort());  // neighbours are read together
}

std::int64_t checked_batch(std::int64_t samples, std::int64_t batch, const std::string& data) {
  if (samples < batch)
    throw Error("there are " + std::to_string(samples) + " samples to train with", data,
                "give --batch " + std::to_string(samples) + " or less");
  return batch;
}

/// Requires that the model takes a smaller last step: it divides its samples otherwise than the plan does.
void require_taken(const Plan& plan, const SampleRange& taken, std::int64_t samples, const std::string& what, const std::string& remedy) {
  if (samples < 1) return;
  const BatchParts parts(plan, static_cast<int>(samples));
  for (const int size : parts.sizes())
    if (size > 0 && !taken.takes(size))
      throw Error(what + " has " + std::to_string(samples) + " samples and a micro-batch of " + std::to_string(size) +
                      ", and the model takes " + text_of(taken),
                  "--data", remedy);
}

}  // namespace

TrainingData::TrainingData(const TrainRequest& request, const Model& model)
    : loss_(model.loss()),
      training_{samples_for(request.setup, model), {}},
      validation_(held(request, model, training_)),
      batch_(checked_batch(training_.size(), batch_size_of(request.setup, model), request.setup.data)),
      epochs_(training_.size(), batch_, request.setup.seed, request.drop_last) {
  if (!request.drop_last)
    require_taken(request.plan, model.samples(), training_.size() % batch_, "the last step of an epoch",
                  "give --drop-last, or another --batch");
  require_taken(request.plan, model.samples(), validation_.size() % batch_, "the last step of the validation",
                "give another --validation, or another --batch");
}

/// Returns the samples for validation: those of a file of their own, or a share chosen by the seed. `training` keeps the others.
TrainingData::Part TrainingData::held(const TrainRequest& request, const Model& model, Part& training) {
  const TrainingSetup& setup = request.setup;
  training.indices = all_of(training.all);
  if (!request.validation_data.empty()) {
    const Activity activity("reading", request.validation_data, kPatienceOfLoading);
    Batch samples = load_batch(request.validation_data, model.sample(), ignored_target(setup));
    at::Tensor all = all_of(samples);
    return {std::move(samples), std::move(all)};
  }
  if (request.validation_share <= 0) return {};
  const std::int64_t count = training.size();
  if (setup.data.empty() || count < 2)
    throw Error("there are no samples to keep apart for validation", "--validation", "give several samples with --data");
  const auto apart =
      std::clamp<std::int64_t>(static_cast<std::int64_t>(request.validation_share * static_cast<double>(count)), 1, count - 1);
  const at::Tensor order = shuffled(count, setup.seed, 0);
  training.indices = sorted(order.narrow(0, apart, count - apart));
  return {training.all, sorted(order.narrow(0, 0, apart))};
}

Batch TrainingData::Part::chosen(const at::Tensor& some) const {
  const at::Tensor places = indices.index_select(0, some);
  Batch batch;
  for (const at::Tensor& input : all.inputs) batch.inputs.push_back(input.index_select(0, places));
  if (all.target.defined()) batch.target = all.target.index_select(0, places);
  return batch;
}

Batch TrainingData::made(std::int64_t step) const {
  return training_.chosen(epochs_.indices_of(step));
}

Batch TrainingData::batch_of(std::int64_t step) {
  if (training_.size() == batch_ && !validates()) return training_.all;
  if (next_.valid()) next_.wait();
  Batch batch = next_.valid() && next_step_ == step ? next_.get() : made(step);
  next_step_ = step + 1;
  next_ = std::async(std::launch::async, [this, following = next_step_] {
    const c10::ParallelGuard alone(true);  // the devices' threads need the other cores
    return made(following);
  });
  return batch;
}

void TrainingData::validate(Pipeline& pipeline, EpochFinished& epoch) const {
  if (!validates()) return;
  std::vector<int> sizes;
  for (std::int64_t left = validation_.size(); left > 0; left -= batch_) sizes.push_back(static_cast<int>(std::min(left, batch_)));
  const at::Tensor target = validation_.all.target.defined() ? validation_.all.target.index_select(0, validation_.indices) : at::Tensor();
  const std::vector<double> weights = loss_.weights_of_parts(target, sizes);
  std::optional<Accuracy> all = Accuracy{};
  epoch.validation_loss = 0;
  std::int64_t first = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const Batch part = validation_.chosen(at::arange(first, first + sizes[i], at::kLong));
    first += sizes[i];
    if (weights[i] <= 0) continue;
    const Evaluation evaluation = pipeline.evaluate(part.inputs, part.target);
    *epoch.validation_loss += weights[i] * evaluation.loss;
    const std::optional<Accuracy> accuracy = accuracy_of(loss_, evaluation.outputs, part.target);
    all = all && accuracy ? std::optional(Accuracy{all->right + accuracy->right, all->counted + accuracy->counted}) : std::nullopt;
  }
  if (all) epoch.accuracy = all->share();
}

}  // namespace mptune::tuner
