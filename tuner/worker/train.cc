#include <torch/version.h>

#include <cmath>
#include <optional>

#include "profiler/base/activity.h"
#include "profiler/base/device_spec.h"
#include "profiler/base/error.h"
#include "profiler/loading/load_model.h"
#include "profiler/measure/measure.h"
#include "profiler/model/in_memory_format.h"
#include "profiler/models/builtin_models.h"
#include "profiler/state/state.h"
#include "profiler/statistics/stopping.h"
#include "tuner/trial/plan_failed.h"
#include "tuner/worker/requests.h"

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

TrainingFinished train_on(const Devices& devices, const TrainRequest& request, const Replies& reply) {
  LoadedModel loaded = model_of(request.setup);
  if (!request.load.empty()) load_state(loaded.model, request.load, loaded.extras);
  const Batch batch = batch_of(request.setup, loaded.model);
  TrainingRun run(request.setup, std::move(loaded.model), request.plan, batch, devices);
  const profiler::StoppingRule tight{10, 50, 0.01};
  TrainingFinished finished;
  for (int step = 0; request.steps > 0 ? step < request.steps : !profiler::should_stop(finished.step_s, tight); ++step) {
    const StepResult result = run.step();
    if (!std::isfinite(result.loss))
      throw PlanFailed(
          Error("the loss is not finite", "step " + std::to_string(step), "lower --lr or check the data", ExitCode::infeasible),
          NonFinite{});
    finished.loss.push_back(result.loss);
    finished.step_s.values.push_back({result.seconds, step, 0, 0});
    reply(Trained{step, result.loss, result.seconds});
  }
  finished.peak_bytes = run.pipeline().peak_bytes();
  if (!request.save.empty()) {
    const Activity activity("saving", request.save, kPatienceOfLoading);
    LoadedModel trained = model_of(request.setup);
    if (!request.load.empty()) load_state(trained.model, request.load, trained.extras);  // entries that no layer uses are saved unchanged
    run.pipeline().copy_state_to(trained.model);
    save_state(trained.model, request.save, trained.extras);
  }
  return finished;
}

}  // namespace

void train(const TrainRequest& request, const Replies& reply) {
  if (device_kind(request.plan.devices.front()) == DeviceSpec::Kind::sleep)
    throw Error("sleeping devices compute nothing, so that nothing can be trained on them", request.plan.devices.front(),
                "use them with profile, tune and simulate");
  const Devices devices = devices_of(request.plan);
  run_plan(devices, request.setup, [&] { reply(train_on(devices, request, reply)); });
}

}  // namespace mptune::tuner
