#include "reports/cli/commands/worker_calls.h"

#include <optional>

#include "profiler/base/device_pool.h"
#include "profiler/base/error.h"
#include "tuner/worker/host/worker_process.h"

namespace mptune::reports {

tuner::WaitOptions wait_options(const Session& session, double ends_s) {
  tuner::WaitOptions wait;
  wait.limits.ends_s = ends_s;
  wait.tell = [&session](const std::string& what) { session.warn(what); };
  return wait;
}

tuner::DescribedModel describe_model(const tuner::TrainingSetup& setup, const Session& session, double ends_s) {
  tuner::DescribedModel model;
  bool found = false;
  tuner::call_worker(tuner::DescribeRequest{setup, false}, wait_options(session, ends_s), [&](const tuner::Reply& reply) {
    if (const auto* described = std::get_if<tuner::Described>(&reply); described != nullptr && !described->models.empty()) {
      model = described->models.front();
      found = true;
    }
  });
  if (!found) {
    throw Error("mptune-worker did not describe the model", setup.model, "make sure that both programs are of the same build",
                ExitCode::internal);
  }
  if (!model.warning.empty()) session.warn(model.warning);
  return model;
}

void measure_profile(const tuner::TrainingSetup& setup, const std::string& path, const RequestTime& time, const PlanChoice& choice,
                     const Plan* plan, const Session& session, const tuner::WaitOptions& wait, ProgressLine& progress,
                     const std::function<void(const tuner::PassTimed&)>& on_pass) {
  std::vector<std::string> devices = setup.devices;
  for (const std::string& pool : setup.pools) devices.push_back(parse_pool(pool).whole.name);
  const tuner::MeasureRequest request{.setup = setup,
                                      .path = path,
                                      .budget_s = time.budget_s,
                                      .channels_last = choice.allows_channels_last(),
                                      .replaced_kernels = choice.allows_replaced_kernels(),
                                      .threads = measured_threads(choice, devices, plan),
                                      .started_s = time.started_s,
                                      .most_s = time.most_s};
  tuner::call_worker(request, wait, [&](const tuner::Reply& reply) {
    if (const auto* news = std::get_if<tuner::Progress>(&reply)) progress.update("measuring " + news->what, news->fraction);
    if (const auto* warned = std::get_if<tuner::Warned>(&reply)) session.warn(warned->text);
    if (const auto* pass = std::get_if<tuner::PassTimed>(&reply); pass != nullptr && on_pass) on_pass(*pass);
  });
}

void estimate_profile(const tuner::TrainingSetup& setup, const std::string& path, const std::string& hardware, const Session& session,
                      const tuner::WaitOptions& wait) {
  tuner::call_worker(tuner::MeasureRequest{.setup = setup, .path = path, .estimate = hardware}, wait, [&](const tuner::Reply& reply) {
    if (const auto* warned = std::get_if<tuner::Warned>(&reply)) session.warn(warned->text);
  });
}

tuner::Recorded record_plan(const tuner::TrainingSetup& setup, const Plan& plan, int steps, const std::string& path,
                            const std::string& profile_path, const tuner::WaitOptions& wait, ProgressLine& progress) {
  tuner::Recorded recorded;
  tuner::call_worker(tuner::RecordRequest{setup, plan, steps, path, profile_path}, wait, [&](const tuner::Reply& reply) {
    if (const auto* news = std::get_if<tuner::Progress>(&reply))
      progress.update(news->what, news->fraction);
    else if (const auto* done = std::get_if<tuner::Recorded>(&reply))
      recorded = *done;
  });
  return recorded;
}

tuner::CheckResult check_model(const tuner::TrainingSetup& setup, const std::optional<Plan>& plan, const RequestTime& time,
                               const tuner::WaitOptions& wait, ProgressLine& progress) {
  std::optional<tuner::CheckResult> result;
  progress.update("checking the model's pieces", 0);
  tuner::call_worker(tuner::CheckRequest{setup, plan, time.budget_s, time.started_s}, wait, [&](const tuner::Reply& reply) {
    if (const auto* news = std::get_if<tuner::Progress>(&reply))
      progress.update("checking " + news->what, news->fraction);
    else if (const auto* done = std::get_if<tuner::Checked>(&reply))
      result = done->result;
  });
  if (!result) {
    throw Error("mptune-worker did not check the model", setup.model, "make sure that both programs are of the same build",
                ExitCode::internal);
  }
  return *result;
}

void check_names(const Session& session, const PlanFile& file, const std::vector<ProfileLayer>& layers, const std::string& model,
                 const std::string& path, bool renamed) {
  if (std::ranges::all_of(layers, [](const ProfileLayer& layer) { return layer.modules.empty(); })) return;
  const std::string unknown = check_modules(file, layers, path);
  if (unknown.empty()) return;
  const std::string what = "the plan names module '" + unknown.substr(0, 80) + "', which " + model + " does not have";
  if (!renamed)
    throw Error(what, path, "give the model that the plan was made for, or --allow-renamed where its modules have other names now");
  session.warn(what + ": " + path);
}

void check_fingerprint(const Session& session, const PlanFile& file, const tuner::DescribedModel& model, const std::string& path,
                       const PlanChoice& choice) {
  const auto differs = [](const std::string& a, const std::string& b) { return !a.empty() && !b.empty() && a != b; };
  std::string what;
  if (differs(file.fingerprint.model, model.fingerprint.model))
    what = "the plan was made for another model than " + model.name;
  else if (differs(file.fingerprint.input, model.fingerprint.input))
    what = "the plan was made for input " + file.fingerprint.input + ", not " + model.fingerprint.input;
  else if (differs(file.fingerprint.libtorch, model.fingerprint.libtorch))
    what = "the plan was made with LibTorch " + file.fingerprint.libtorch + ", this is " + model.fingerprint.libtorch;
  if (!what.empty() && choice.strict) throw Error(what, path, "tune this model, or leave --strict out");
  validate(file.plan, static_cast<int>(model.layers.size()), path);
  check_names(session, file, model.layers, model.name, path, choice.allow_renamed);
  if (!what.empty()) session.warn(what + ": " + path + "; tune again for a plan of its own");
}

}  // namespace mptune::reports
