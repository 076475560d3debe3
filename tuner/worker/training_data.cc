#include "tuner/worker/training_data.h"

#include <ATen/ATen.h>
#include <c10/util/ParallelGuard.h>

#include <algorithm>
#include <utility>

#include "profiler/base/activity.h"
#include "profiler/base/error.h"
#include "profiler/state/batch_file.h"
#include "tuner/training/accuracy.h"
#include "tuner/worker/requests.h"

namespace mptune::tuner {
namespace {

std::int64_t count_of(const Batch& samples) {
  return samples.inputs.at(0).size(0);
}

Batch selected(const Batch& samples, const at::Tensor& indices) {
  Batch some;
  for (const at::Tensor& input : samples.inputs) some.inputs.push_back(input.index_select(0, indices));
  if (samples.target.defined()) some.target = samples.target.index_select(0, indices);
  return some;
}

/// Moves a share of the samples, chosen by the seed, from `samples` to the result.
Batch split_off(Batch& samples, double share, std::uint64_t seed) {
  const std::int64_t count = count_of(samples);
  const auto apart = std::clamp<std::int64_t>(static_cast<std::int64_t>(share * static_cast<double>(count)), 1, count - 1);
  const at::Tensor order = shuffled(count, seed, 0);
  Batch others = selected(samples, std::get<0>(order.narrow(0, 0, apart).sort()));
  samples = selected(samples, std::get<0>(order.narrow(0, apart, count - apart).sort()));
  return others;
}

Batch validation_of(const TrainRequest& request, const Model& model, Batch& samples) {
  const TrainingSetup& setup = request.setup;
  if (!request.validation_data.empty()) {
    const Activity activity("reading", request.validation_data, kPatienceOfLoading);
    return load_batch(request.validation_data, model.sample(), ignored_target(setup));
  }
  if (request.validation_share <= 0) return {};
  if (setup.data.empty() || count_of(samples) < 2)
    throw Error("there are no samples to keep apart for validation", "--validation", "give several samples with --data");
  return split_off(samples, request.validation_share, setup.seed);
}

std::int64_t checked_batch(const Batch& samples, std::int64_t batch, const std::string& data) {
  if (count_of(samples) < batch)
    throw Error("there are " + std::to_string(count_of(samples)) + " samples to train with", data,
                "give --batch " + std::to_string(count_of(samples)) + " or less");
  return batch;
}

}  // namespace

TrainingData::TrainingData(const TrainRequest& request, const Model& model)
    : loss_(model.loss()),
      samples_(samples_for(request.setup, model)),
      validation_(validation_of(request, model, samples_)),
      batch_(checked_batch(samples_, batch_size_of(request.setup, model), request.setup.data)),
      epochs_(count_of(samples_), batch_, request.setup.seed, request.drop_last) {}

Batch TrainingData::made(std::int64_t step) const {
  return selected(samples_, epochs_.indices_of(step));
}

Batch TrainingData::batch_of(std::int64_t step) {
  if (count_of(samples_) == batch_) return samples_;
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
  for (std::int64_t left = count_of(validation_); left > 0; left -= batch_) sizes.push_back(static_cast<int>(std::min(left, batch_)));
  const std::vector<double> weights = loss_.weights_of_parts(validation_.target, sizes);
  std::optional<Accuracy> all = Accuracy{};
  epoch.validation_loss = 0;
  std::int64_t first = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const Batch part = samples_of(validation_, first, sizes[i]);
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
