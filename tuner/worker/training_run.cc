#include <torch/optim/optimizer.h>

#include "mptune/profiler/base/device_spec.h"
#include "mptune/profiler/base/error.h"
#include "mptune/profiler/device/device_list.h"
#include "mptune/profiler/device/precise_sleep.h"
#include "mptune/profiler/measure/optimizer.h"
#include "mptune/profiler/measure/sleep_model.h"
#include "mptune/profiler/store/store.h"
#include "mptune/tuner/worker/requests.h"

namespace mptune {

namespace {

bool sleeps(const TrainingSetup& setup) {
  return !setup.devices.empty() && device_kind(setup.devices[0]) == DeviceSpec::Kind::sleep && !setup.sleep_profile.empty();
}

PipelineOptions options_of(const TrainingSetup& setup) {
  return {.link = parse_link(setup.link), .memory_bytes = setup.memory_bytes, .seed = setup.seed, .strict = false};
}

}  // namespace

Model model_of(const TrainingSetup& setup) {
  if (sleeps(setup)) {
    const Recording recording = read_recording(setup.sleep_profile);
    if (!recording.profile) throw Error("the file holds no profile", setup.sleep_profile, "make one with mptune profile");
    return make_sleep_model(*recording.profile);
  }
  return load_model(setup.model, setup.input, setup.seed, {.loss = setup.loss, .data = setup.data});
}

int batch_size_of(const TrainingSetup& setup, const Model& model) {
  return setup.batch > 0 ? setup.batch : model.default_batch();
}

Batch batch_of(const TrainingSetup& setup, const Model& model) {
  const int samples = batch_size_of(setup, model);
  if (setup.data.empty() || sleeps(setup)) return synthetic_batch(model.sample(), samples, setup.seed);
  Batch batch = load_batch(setup.data, model.sample());
  if (batch.inputs.at(0).size(0) != samples)
    throw Error("the file holds " + std::to_string(batch.inputs.at(0).size(0)) + " samples", setup.data,
                "give --batch " + std::to_string(batch.inputs.at(0).size(0)));
  return batch;
}

std::vector<std::shared_ptr<Device>> devices_of(const Plan& plan) {
  std::vector<std::shared_ptr<Device>> devices;
  for (const DeviceSpec& spec : parse_device_names(plan.devices)) devices.push_back(make_device(spec));
  return devices;
}

TrainingRun::TrainingRun(const TrainingSetup& setup, Model model, const Plan& plan, Batch batch)
    : TrainingRun(setup, std::move(model), plan, std::move(batch), devices_of(plan)) {}

TrainingRun::TrainingRun(const TrainingSetup& setup, Model model, const Plan& plan, Batch batch,
                         std::vector<std::shared_ptr<Device>> devices)
    : pipeline_(std::move(model), plan, options_of(setup), std::move(devices)), batch_(std::move(batch)), optimizers_(plan.stages.size()) {
  pipeline_.on_stages([&](int stage) {
    optimizers_[static_cast<std::size_t>(stage)] = make_optimizer(setup.optimizer, setup.learning_rate, pipeline_.parameters(stage));
  });
}

TrainingRun::~TrainingRun() = default;

StepResult TrainingRun::step() {
  const auto start = SteadyClock::now();
  StepResult result = pipeline_.step(batch_.inputs, batch_.target);
  pipeline_.on_stages([&](int stage) { optimizers_[static_cast<std::size_t>(stage)]->step(); });
  result.seconds = std::chrono::duration<double>(SteadyClock::now() - start).count();
  return result;
}

}  // namespace mptune
