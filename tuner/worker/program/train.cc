#include <torch/version.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "profiler/base/activity.h"
#include "profiler/base/device_spec.h"
#include "profiler/base/error.h"
#include "profiler/base/library_message.h"
#include "profiler/base/rate_schedule.h"
#include "profiler/measure/describe_model.h"
#include "profiler/model/builtin/builtin_models.h"
#include "profiler/model/files/state.h"
#include "profiler/model/layers/in_memory_format.h"
#include "profiler/model/loading/load_model.h"
#include "profiler/trace/statistics/stopping.h"
#include "tuner/runtime/between/rank_group.h"
#include "tuner/runtime/training/checkpoint.h"
#include "tuner/trial/plan_failed.h"
#include "tuner/worker/program/ranks.h"
#include "tuner/worker/program/requests.h"
#include "tuner/worker/program/training_data.h"
#include "tuner/worker/step_log.h"

namespace mptune::tuner {

namespace {

std::string joined(const std::vector<std::string>& clauses) {
  std::string text;
  for (const std::string& clause : clauses) text += (text.empty() ? "" : "; ") + clause;
  return text;
}

DescribedModel described(const TrainingSetup& setup, const BuiltinModel& about) {
  const Activity activity("loading", setup.model, kPatienceOfLoading);
  const LoadedModel loaded = load_model(setup.model, setup.input, std::nullopt, source_of(setup));
  const Model& model = loaded.model;
  DescribedModel description{about.name,
                             about.parameters,
                             about.description,
                             0,
                             profiler::describe_layers(model),
                             model.input_text(),
                             batch_size_of(setup, model),
                             {},
                             profiler::has_convolution_weights(model.layers()),
                             joined(loaded.warnings)};
  for (const ProfileLayer& layer : description.layers) description.parameters += layer.parameters;
  description.fingerprint = {model.fingerprint(), model.input_text(), setup.devices, TORCH_VERSION, ""};
  return description;
}

BuiltinModel about(const std::string& text) {
  const ModelText parsed = parse_model_text(text);
  if (parsed.is_file) return describe_model_file(parsed);
  for (const BuiltinModel& builtin : builtin_models())
    if (builtin.name == parsed.name) return builtin;
  return {parsed.name, "", ""};  // load_model refuses the unknown name
}

}  // namespace

void describe(const DescribeRequest& request, const Replies& reply) {
  Described all;
  if (request.all_models) {
    TrainingSetup setup = request.setup;
    setup.input.clear();
    for (const BuiltinModel& builtin : builtin_models()) {
      setup.model = builtin.name;
      all.models.push_back(described(setup, builtin));
    }
  } else {
    all.models.push_back(described(request.setup, about(request.setup.model)));
  }
  reply(std::move(all));
}

namespace {

/// Runs a step. An error of LibTorch then says where the step was.
TrainingRun::Step step_of(TrainingRun& run, const Batch& batch) {
  try {
    return run.step(batch);
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::AcceleratorError&) {
    throw;
  } catch (const c10::Error& error) {
    const std::string place = run.pipeline().failed_at();
    if (place.empty()) throw;
    throw Error(library_message(error.what_without_backtrace()), place,
                "check --input, --batch and --data against the model, and the code of its layers");
  }
}

void check_belongs(const Checkpoint& checkpoint, const CheckpointInfo& own, const std::string& path) {
  const CheckpointInfo& made = checkpoint.info;
  if (made.fingerprint != own.fingerprint)
    throw Error("the checkpoint is of another model, " + made.model, path, "give that model, or another folder");
  if (made.optimizer != own.optimizer)
    throw Error("the checkpoint was made with " + made.optimizer, path, "give --optimizer " + made.optimizer + ", or another folder");
  if (made.precision != own.precision)
    throw Error(std::string("the checkpoint was made in ") + name_of(made.precision), path,
                std::string("give a plan in ") + name_of(made.precision) + " (--precision), or another folder");
  if (made.seed != own.seed)
    throw Error("the checkpoint was made with another seed", path, "give --seed " + std::to_string(made.seed) + ", or another folder");
}

/// The checkpoints of a training, if it has any.
class Checkpoints {
 public:
  /// `writes`: this rank writes and reads the checkpoints.
  Checkpoints(const TrainRequest& request, const Model& model, bool writes)
      : folder_(request.checkpoint),
        writes_(writes),
        from_(request.checkpoint_step),
        every_(request.every),
        info_{model.name(),
              model.fingerprint(),
              text_of(request.setup.optimizer),
              request.setup.seed,
              batch_size_of(request.setup, model),
              request.plan.options.precision} {}

  /// Sets `run` to the checkpoint asked for or the latest one, which the first rank reads.
  void go_on(TrainingRun& run, int steps, TrainingFinished& finished) const {
    if (folder_.empty()) return;
    const std::string path = writes_ ? (from_ > 0 ? checkpoint_of(folder_, from_) : latest_checkpoint(folder_)) : "";
    const Activity activity("reading", path, kPatienceOfLoading);
    Checkpoint checkpoint;
    if (!path.empty()) checkpoint = load_checkpoint(path);
    if (!path.empty()) check_belongs(checkpoint, info_, path);
    if (checkpoint.state.steps >= steps)
      throw Error("the training has " + std::to_string(checkpoint.state.steps) + " steps already", path,
                  "give more --steps, or another folder");
    finished.first_step = static_cast<int>(run.pipeline().sum_over_ranks({static_cast<double>(checkpoint.state.steps)})[0]);
    finished.resumed_from = path;
    if (finished.first_step > 0) run.go_on_from(checkpoint.state);
  }
  /// Saves a checkpoint after step number `done`, if one is due.
  void save(TrainingRun& run, int done, bool last, TrainingFinished& finished) const {
    if (folder_.empty() || (!last && (every_ == 0 || done % every_ != 0))) return;
    const Activity activity("writing a checkpoint in", folder_, kPatienceOfLoading);
    const TrainingState state = run.state();
    if (!writes_) return;
    save_checkpoint(folder_, info_, state);
    finished.checkpoint = latest_checkpoint(folder_);
  }

 private:
  std::string folder_;
  bool writes_;
  int from_, every_;
  CheckpointInfo info_;
};

/// The mean loss of the steps of an epoch, weighted by their samples.
class EpochMean {
 public:
  void add(double loss, int samples) {
    if (!std::isfinite(loss)) return;  // the step was skipped
    sum_ += loss * samples;
    samples_ += samples;
  }
  [[nodiscard]] double take() {
    const double mean = samples_ > 0 ? sum_ / samples_ : std::numeric_limits<double>::quiet_NaN();
    *this = {};
    return mean;
  }

 private:
  double sum_ = 0, samples_ = 0;
};

int steps_of(int epochs, const Epochs& about) {
  const std::int64_t steps = epochs * about.steps_per_epoch();
  if (steps > std::numeric_limits<int>::max())
    throw Error(std::to_string(epochs) + " epochs take " + std::to_string(steps) + " steps", "--epochs",
                "give fewer epochs or a larger --batch");
  return static_cast<int>(steps);
}

/// Returns the seconds of a step by which all ranks decide.
double agreed(const Pipeline& pipeline, double seconds, bool leads) {
  return pipeline.has_all_stages() ? seconds : pipeline.sum_over_ranks({leads ? seconds : 0})[0];
}

/// Saves the model: every rank copies what is trained, and the first one saves it.
void save_model(const TrainingRun& run, const TrainRequest& request, bool leads) {
  const Activity activity("saving", request.save, kPatienceOfLoading);
  LoadedModel trained = model_of(request.setup);
  if (!request.load.empty()) load_state(trained.model, request.load, trained.extras);  // entries that no layer uses are saved unchanged
  run.pipeline().copy_state_to(trained.model);
  if (leads) save_state(trained.model, request.save, trained.extras);
}

TrainingFinished train_on(const Devices& devices, const TrainRequest& request, const std::shared_ptr<RankGroup>& ranks,
                          const Replies& reply) {
  const bool leads = !ranks || ranks->rank() == 0;
  LoadedModel loaded = model_of(request.setup);
  if (!request.load.empty()) load_state(loaded.model, request.load, loaded.extras);
  if (!request.save.empty() && leads) check_can_save(loaded.model, request.save, loaded.extras);
  if (!request.checkpoint.empty() && leads) check_can_save(loaded.model, request.checkpoint + "/tensors.safetensors");
  TrainingData data(request, loaded.model);
  const Checkpoints checkpoints(request, loaded.model, leads);
  TrainingRun run(request.setup, std::move(loaded.model), request.plan, {}, devices, ranks);
  run.limit_gradients(request.clip_norm, request.skip_non_finite);
  const profiler::StoppingRule tight{10, 50, 0.01};
  const int steps = request.epochs > 0 ? steps_of(request.epochs, data.epochs()) : request.steps;
  const RateSchedule schedule = request.rate_schedule.empty() ? RateSchedule() : parse_rate_schedule(request.rate_schedule);
  TrainingFinished finished;
  checkpoints.go_on(run, steps, finished);
  EpochMean mean;
  StepLog log(leads ? request.csv : "");
  for (int step = finished.first_step; steps > 0 ? step < steps : !profiler::should_stop(finished.step_s, tight); ++step) {
    const Batch batch = data.batch_of(step);
    const double rate = run.set_rate_factor(rate_factor(schedule, step, steps));
    const TrainingRun::Step result = step_of(run, batch);
    finished.skipped_steps += result.skipped ? 1 : 0;
    if (!std::isfinite(result.loss) && !(result.skipped && request.skip_non_finite))
      throw PlanFailed(
          Error("the loss is not finite", "step " + std::to_string(step),
                request.plan.options.precision == Precision::fp16 ? "lower --lr, check the data, or use bf16, whose range is wider"
                                                                  : "lower --lr or check the data",
                ExitCode::infeasible),
          NonFinite{});
    finished.loss.push_back(result.loss);
    const double seconds = steps > 0 ? result.seconds : agreed(run.pipeline(), result.seconds, leads);
    finished.step_s.values.push_back({seconds, step, 0, 0});
    const auto samples = static_cast<int>(batch.inputs.at(0).size(0)), epoch = static_cast<int>(data.epochs().epoch_of(step));
    mean.add(result.loss, samples);
    std::optional<EpochFinished> ended;
    if ((data.epochs().ends_epoch(step) || step + 1 == steps) && (data.has_epochs() || request.epochs > 0)) {
      ended = EpochFinished{epoch, step, mean.take(), {}, {}};
      data.validate(run.pipeline(), *ended);
      finished.epochs.push_back(*ended);
      reply(*ended);
    }
    const Trained trained{step, result.loss, result.seconds, epoch, samples, steps, rate};
    log.add(trained, ended);
    reply(trained);
    checkpoints.save(run, step + 1, step + 1 == steps, finished);
  }
  finished.peak_bytes = peaks_of(run.pipeline());
  if (!request.save.empty()) save_model(run, request, leads);
  return finished;
}

}  // namespace

void train(const TrainRequest& request, const Replies& reply) {
  if (device_kind(request.plan.devices.front()) == DeviceSpec::Kind::sleep)
    throw Error("sleeping devices compute nothing, so that nothing can be trained on them", request.plan.devices.front(),
                "use them with profile, tune and simulate");
  const std::shared_ptr<RankGroup> ranks = ranks_for(request);
  for_ranks(ranks, [&] {
    const Devices devices = devices_of(request.plan, ranks.get());
    run_plan(devices, request.setup, [&] { reply(train_on(devices, request, ranks, reply)); });
  });
}

}  // namespace mptune::tuner
