#include "reports/cli/worker_calls.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <mutex>
#include <optional>
#include <thread>

#include "profiler/base/device_pool.h"
#include "profiler/base/error.h"
#include "tuner/live/interrupt.h"
#include "tuner/live/worker_process.h"

namespace mptune::reports {
namespace {

void write_all(int descriptor, const std::string& text) {
  // A failure is ignored: the process is about to end.
  [[maybe_unused]] const ssize_t written = write(descriptor, text.data(), text.size());
}

std::atomic<std::chrono::milliseconds>& time_to_finish() {
  static std::atomic<std::chrono::milliseconds> time{std::chrono::milliseconds(600)};
  return time;
}

/// What to do after an interrupt; the watchdog reads it.
class InterruptRemedy {
 public:
  void set(const std::string& text) {
    const std::lock_guard lock(mutex_);
    text_ = text;
  }
  [[nodiscard]] std::string text() {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  std::mutex mutex_;
  std::string text_ = "start the command again";
};

InterruptRemedy& interrupt_remedy() {
  static InterruptRemedy remedy;
  return remedy;
}

/// Processor time that may still be taken [s].
double processor_time_left_s() {
  return tuner::processor_time_limit_s() - tuner::processor_time_s();
}

constexpr std::chrono::milliseconds kPoll{50};

/// Makes an interrupt of the processor time where that runs out: a command that polls the flag has the rest of it to end.
void wait_for_interrupt() {
  const double least_left_s = std::min(3.0, tuner::processor_time_limit_s() / 3);
  while (tuner::interrupt_flag().load() == 0) {
    int none = 0;
    if (processor_time_left_s() < least_left_s) tuner::interrupt_flag().compare_exchange_strong(none, SIGXCPU);
    std::this_thread::sleep_for(kPoll);
  }
}

/// Gives code that polls the flag time to end the command first, and all other code the processor time that is left.
void wait_for_the_end() {
  constexpr double kToSayIt = 0.5;  // s of processor time, as this thread may be woken late
  const bool of_time = tuner::interrupt_flag().load() == SIGXCPU;
  const auto end = std::chrono::steady_clock::now() + time_to_finish().load();
  while ((of_time || std::chrono::steady_clock::now() < end) && processor_time_left_s() > kToSayIt) std::this_thread::sleep_for(kPoll);
}

}  // namespace

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

void measure_profile(const tuner::TrainingSetup& setup, const std::string& path, double budget_s, const PlanChoice& choice,
                     const Plan* plan, const Session& session, const tuner::WaitOptions& wait, ProgressLine& progress) {
  std::vector<std::string> devices = setup.devices;
  for (const std::string& pool : setup.pools) devices.push_back(parse_pool(pool).whole.name);
  const tuner::MeasureRequest request{.setup = setup,
                                      .path = path,
                                      .budget_s = budget_s,
                                      .channels_last = choice.allows_channels_last(),
                                      .replaced_kernels = choice.allows_replaced_kernels(),
                                      .threads = measured_threads(choice, devices, plan)};
  tuner::call_worker(request, wait, [&](const tuner::Reply& reply) {
    if (const auto* news = std::get_if<tuner::Progress>(&reply)) progress.update("measuring " + news->what, news->fraction);
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

tuner::CheckResult check_model(const tuner::TrainingSetup& setup, const std::optional<Plan>& plan, double budget_s,
                               const tuner::WaitOptions& wait, ProgressLine& progress) {
  std::optional<tuner::CheckResult> result;
  progress.update("checking the model's pieces", 0);
  tuner::call_worker(tuner::CheckRequest{setup, plan, budget_s}, wait, [&](const tuner::Reply& reply) {
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

void warn_of_unknown_module(const Session& session, const std::string& name, const std::string& model, const std::string& path) {
  if (!name.empty()) session.warn("the plan names module '" + name + "', which " + model + " does not have in this form: " + path);
}

void check_fingerprint(const Session& session, const PlanFile& file, const tuner::DescribedModel& model, const std::string& path,
                       bool strict) {
  const auto differs = [](const std::string& a, const std::string& b) { return !a.empty() && !b.empty() && a != b; };
  std::string what;
  if (differs(file.fingerprint.model, model.fingerprint.model))
    what = "the plan was made for another model than " + model.name;
  else if (differs(file.fingerprint.input, model.fingerprint.input))
    what = "the plan was made for input " + file.fingerprint.input + ", not " + model.fingerprint.input;
  else if (differs(file.fingerprint.libtorch, model.fingerprint.libtorch))
    what = "the plan was made with LibTorch " + file.fingerprint.libtorch + ", this is " + model.fingerprint.libtorch;
  if (!what.empty() && strict) throw Error(what, path, "tune this model, or leave --strict out");
  validate(file.plan, static_cast<int>(model.layers.size()), path);
  if (file.fingerprint.model == model.fingerprint.model)
    warn_of_unknown_module(session, check_modules(file, model.layers, path), model.name, path);
  if (!what.empty()) session.warn(what + ": " + path + "; tune again for a plan of its own");
}

void set_interrupt_remedy(const std::string& remedy) {
  interrupt_remedy().set(remedy);
}

void leave_time_to_finish() {
  time_to_finish() = std::chrono::seconds(5);
}

void start_interrupt_watchdog(bool json) {
  std::thread([json] {
    wait_for_interrupt();
    wait_for_the_end();
    const tuner::InterruptText text = tuner::interrupt_text(interrupt_remedy().text());
    const int code = static_cast<int>(text.code);
    write_all(STDERR_FILENO, "mptune: " + text.what + ": mptune; " + text.remedy + "\n");
    if (json) write_all(STDOUT_FILENO, dump(error_json(text.what, "mptune", text.remedy, code)));
    _exit(code);
  }).detach();
}

}  // namespace mptune::reports
