#include <torch/optim/optimizer.h>

#include <algorithm>
#include <cmath>

#include "profiler/base/activity.h"
#include "profiler/base/device_spec.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/device/list/device_list.h"
#include "profiler/device/precise_sleep.h"
#include "profiler/measure/optimizer.h"
#include "profiler/measure/sleep_model.h"
#include "profiler/model/files/batch_file.h"
#include "profiler/model/loading/load_model.h"
#include "profiler/trace/store/store.h"
#include "tuner/runtime/between/remote_device.h"
#include "tuner/trial/plan_failed.h"
#include "tuner/worker/program/requests.h"

namespace mptune::tuner {

namespace {

bool sleeps(const TrainingSetup& setup) {
  return !setup.devices.empty() && device_kind(setup.devices[0]) == DeviceSpec::Kind::sleep && !setup.sleep_profile.empty();
}

PipelineOptions options_of(const TrainingSetup& setup, std::shared_ptr<RankGroup> ranks) {
  return {.link = setup.link,
          .memory_bytes = setup.memory_bytes,
          .seed = setup.seed,
          .strict = false,
          .ranks = std::move(ranks),
          .reduce = setup.reduce};
}

}  // namespace

LoadedModel model_of(const TrainingSetup& setup) {
  const Activity activity("loading", setup.model, kPatienceOfLoading);
  if (sleeps(setup)) {
    const profiler::Recording recording = profiler::read_recording(setup.sleep_profile);
    if (!recording.profile) throw Error("the file holds no profile", setup.sleep_profile, "make one with mptune profile");
    return {profiler::make_sleep_model(*recording.profile)};
  }
  LoadedModel loaded = load_model(setup.model, setup.input, setup.seed, source_of(setup));
  loaded.model.compute_in(setup.precision);
  return loaded;
}

StepSource source_of(const TrainingSetup& setup) {
  return {.loss = setup.loss, .data = setup.data};
}

int batch_size_of(const TrainingSetup& setup, const Model& model) {
  return setup.batch > 0 ? setup.batch : model.default_batch();
}

std::int64_t ignored_target(const TrainingSetup& setup) {
  return (setup.loss.empty() ? LossChoice() : parse_loss(setup.loss)).ignore_index;
}

Batch samples_for(const TrainingSetup& setup, const Model& model) {
  const Activity activity("reading the samples", setup.data, kPatienceOfLoading);
  if (setup.data.empty() || sleeps(setup)) return synthetic_batch(model.sample(), batch_size_of(setup, model), setup.seed);
  return load_batch(setup.data, model.sample(), ignored_target(setup));
}

Batch batch_of(const TrainingSetup& setup, const Model& model) {
  const int samples = batch_size_of(setup, model);
  const Batch all = samples_for(setup, model);
  const std::int64_t held = all.inputs.at(0).size(0);
  if (held < samples)
    throw Error("there are " + std::to_string(held) + " samples", setup.data, "give --batch " + std::to_string(held) + " or less");
  return samples_of(all, 0, samples);
}

Devices devices_of(const Plan& plan, const RankGroup* ranks) {
  Devices devices;
  for (const DeviceSpec& spec : parse_device_names(plan.devices)) devices.push_back(make_device_of(spec, ranks));
  return devices;
}

OutOfMemory out_of_memory_on(const Devices& devices, const TrainingSetup& setup) {
  OutOfMemory memory;
  const auto refuses = [](const std::shared_ptr<Device>& device) { return device->refused_bytes() > 0; };
  const auto device = std::find_if(devices.begin(), devices.end(), refuses);
  if (device == devices.end()) return memory;
  memory.device = (*device)->name();
  memory.requested_bytes = (*device)->refused_bytes();
  if (const auto cap = setup.memory_bytes.find(memory.device); cap != setup.memory_bytes.end()) memory.cap_bytes = cap->second;
  return memory;
}

void run_plan(const Devices& devices, const TrainingSetup& setup, const std::function<void()>& work) {
  try {
    work();
  } catch (const c10::OutOfMemoryError&) {
    const OutOfMemory memory = out_of_memory_on(devices, setup);
    if (memory.device.empty()) throw;
    throw PlanFailed(Error(outcome_text(memory), memory.device, kNeedLessMemory, ExitCode::infeasible), memory);
  }
}

std::vector<std::int64_t> peaks_of(const Pipeline& pipeline) {
  const std::vector<std::int64_t> own = pipeline.peak_bytes();
  const std::vector<double> all = pipeline.sum_over_ranks({own.begin(), own.end()});
  return {all.begin(), all.end()};
}

TrainingRun::TrainingRun(const TrainingSetup& setup, Model model, const Plan& plan, Batch batch)
    : TrainingRun(setup, std::move(model), plan, std::move(batch), devices_of(plan)) {}

TrainingRun::TrainingRun(const TrainingSetup& setup, Model model, const Plan& plan, Batch batch, Devices devices,
                         std::shared_ptr<RankGroup> ranks)
    : pipeline_(std::move(model), plan, options_of(setup, std::move(ranks)), std::move(devices)),
      batch_(std::move(batch)),
      optimizers_(plan.stages.size()) {
  if (plan.options.precision == Precision::fp16) scaler_.emplace();
  pipeline_.on_stages([&](int stage) {
    optimizers_[as_index(stage)] = profiler::make_optimizer(setup.optimizer, setup.learning_rate, pipeline_.parameters(stage));
  });
  for (const auto& optimizer : optimizers_)
    if (optimizer) rate_ = learning_rate_ = optimizer->defaults().get_lr();
}

TrainingRun::~TrainingRun() = default;

double TrainingRun::set_rate_factor(double factor) {
  return rate_ = learning_rate_ * factor;
}

void TrainingRun::limit_gradients(double clip_norm, bool skip_non_finite) {
  clip_norm_ = clip_norm;
  skip_non_finite_ = skip_non_finite;
}

Optimizers TrainingRun::optimizers() const {
  Optimizers all;
  for (const auto& optimizer : optimizers_) all.push_back(optimizer.get());
  return all;
}

TrainingState TrainingRun::state() const {
  TrainingState state = training_state(pipeline_, optimizers());
  if (scaler_) state.loss_scale = scaler_->state();
  return state;
}

void TrainingRun::go_on_from(const TrainingState& of_first_rank) {
  const TrainingState state = state_of_first_rank(pipeline_, of_first_rank);
  set_training_state(pipeline_, optimizers(), state);
  if (scaler_ && state.loss_scale) scaler_.emplace(*state.loss_scale);
}

TrainingRun::Step TrainingRun::step() {
  const auto start = profiler::SteadyClock::now();
  Step result = step(batch_);
  pipeline_.finish_update();
  result.seconds = std::chrono::duration<double>(profiler::SteadyClock::now() - start).count();
  return result;
}

TrainingRun::Step TrainingRun::step(const Batch& batch) {
  const auto start = profiler::SteadyClock::now();
  if (scaler_) pipeline_.set_loss_scale(scaler_->scale());
  Step result{pipeline_.step(batch.inputs, batch.target), false};
  const bool overflow = scaler_ && !scaler_->update(pipeline_.unscale_gradients());
  double norm = 0;
  if (clip_norm_ > 0) norm = pipeline_.clip_gradients(clip_norm_);
  if (skip_non_finite_ && clip_norm_ <= 0) norm = pipeline_.gradient_norm();
  // All stages follow one decision; otherwise they would no longer be of one training.
  result.skipped = overflow || (skip_non_finite_ && !(std::isfinite(norm) && std::isfinite(result.loss)));
  if (!result.skipped)
    pipeline_.update_with_next_step([this, rate = rate_](int stage) {
      torch::optim::Optimizer* optimizer = optimizers_[as_index(stage)].get();
      set_learning_rate({optimizer}, rate);
      optimizer->step();
    });
  result.seconds = std::chrono::duration<double>(profiler::SteadyClock::now() - start).count();
  return result;
}

}  // namespace mptune::tuner
