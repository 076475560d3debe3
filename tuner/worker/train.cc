#include <torch/version.h>

#include <cmath>
#include <optional>

#include "mptune/profiler/base/device_spec.h"
#include "mptune/profiler/base/error.h"
#include "mptune/profiler/measure/measure.h"
#include "mptune/profiler/model/model_file.h"
#include "mptune/profiler/statistics/stopping.h"
#include "mptune/tuner/worker/requests.h"

namespace mptune {

namespace {

DescribedModel described(const TrainingSetup& setup, const BuiltinModel& about) {
  const Model model = load_model(setup.model, setup.input, std::nullopt, {.loss = setup.loss, .data = setup.data});
  DescribedModel description{
      about.name, about.parameters, about.description, 0, describe_layers(model), model.input_text(), batch_size_of(setup, model),
      {},         model.warning()};
  for (const ProfileLayer& layer : description.layers) description.parameters += layer.parameters;
  description.fingerprint = {model.fingerprint(), model.input_text(), setup.devices, TORCH_VERSION, ""};
  return description;
}

BuiltinModel about(const std::string& text) {
  const ModelText parsed = parse_model_text(text);
  if (parsed.is_file) return describe_model_file(parsed);
  for (const BuiltinModel& builtin : builtin_models())
    if (builtin.name == parsed.name) return builtin;
  return {parsed.name, "", ""};  // refused by the loader, which knows the names there are
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

void train(const TrainRequest& request, const Replies& reply) {
  if (device_kind(request.plan.devices.front()) == DeviceSpec::Kind::sleep)
    throw Error("sleeping devices compute nothing, so that nothing can be trained on them", request.plan.devices.front(),
                "use them with profile, tune and simulate");
  Model model = model_of(request.setup);
  if (!request.load.empty()) load_state(model, request.load);
  const Batch batch = batch_of(request.setup, model);
  TrainingRun run(request.setup, std::move(model), request.plan, batch);
  const StoppingRule tight{10, 50, 0.01};
  TrainingFinished finished;
  for (int step = 0; request.steps > 0 ? step < request.steps : !should_stop(finished.step_s, tight); ++step) {
    const StepResult result = run.step();
    if (!std::isfinite(result.loss))
      throw Error("the loss is not finite", "step " + std::to_string(step), "lower --lr or check the data", ExitCode::infeasible);
    finished.loss.push_back(result.loss);
    finished.step_s.values.push_back({result.seconds, step, 0, 0});
    reply(Trained{step, result.loss, result.seconds});
  }
  finished.peak_bytes = run.pipeline().peak_bytes();
  if (!request.save.empty()) {
    Model trained = model_of(request.setup);
    if (!request.load.empty()) load_state(trained, request.load);  // what no layer uses is saved as it was loaded
    run.pipeline().copy_state_to(trained);
    save_state(trained, request.save);
  }
  reply(std::move(finished));
}

}  // namespace mptune
