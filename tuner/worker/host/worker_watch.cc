#include "tuner/worker/host/worker_watch.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "tuner/worker/host/process_state.h"
#include "tuner/worker/messages.h"

namespace mptune::tuner {
namespace {

constexpr double kTimesBefore = 10;       // an activity that takes this many times as long as before does not end
constexpr double kTimesBeforeToTell = 3;  // and the user is told about it from this factor on

double age(double since_s, const WorkerSigns& signs) {
  return signs.now_s - std::max(since_s, signs.watched_since_s);
}

/// Returns when the worker last showed life: a worker that does not beat yet did when it replied.
double last_life(const WorkerSigns& signs) {
  return signs.beat_s > 0 ? signs.beat_s : signs.last_reply_s;
}

SilenceVerdict judge_activity(const ThreadActivity& activity, const WorkerSigns& signs) {
  const double seconds = age(activity.since_s, signs);
  const double limit_s = activity_limit(activity);
  if (seconds > limit_s) return {Silence::endless_activity, activity.text, seconds, limit_s};
  if (seconds > std::max(kLongActivity, kTimesBeforeToTell * activity.longest_s))
    return {Silence::long_activity, activity.text, seconds, limit_s};
  return {};
}

SilenceVerdict judge_what_it_does(const WorkerSigns& signs, const WaitLimits& limits) {
  const double lifeless_s = age(last_life(signs), signs);
  if (lifeless_s > kLifeless && signs.stopped) return {Silence::stopped, "", lifeless_s, kLifeless};
  if (lifeless_s > kLifeless && signs.beat_s > 0 && !signs.debugged) return {Silence::lifeless, "", lifeless_s, kLifeless};
  SilenceVerdict gravest;
  bool does_something = false;
  for (const ThreadActivity& activity : signs.activities) {
    if (activity.patience_s == kWaitsForOthers) continue;
    does_something = true;
    SilenceVerdict verdict = judge_activity(activity, signs);
    if (verdict.silence > gravest.silence) gravest = std::move(verdict);
  }
  if (does_something) return gravest;
  const double quiet_s = age(std::max(signs.last_reply_s, signs.last_change_s), signs);
  if (quiet_s > limits.quiet_s) return {Silence::quiet, "", quiet_s, limits.quiet_s};
  return {};
}

/// Returns the activity that has lasted longest; "" for none.
std::string longest_activity(const WorkerSigns& signs) {
  const ThreadActivity* longest = nullptr;
  for (const ThreadActivity& activity : signs.activities)
    if (activity.patience_s != kWaitsForOthers && (longest == nullptr || activity.since_s < longest->since_s)) longest = &activity;
  return longest == nullptr ? "" : longest->text;
}

constexpr double kGap = 1;  // looks so far apart mean that this process was stopped itself

/// Returns how long anything may take the first time, as the user says with MPTUNE_PATIENCE; 0 where the user says nothing.
double asked_patience() {
  const char* text = std::getenv("MPTUNE_PATIENCE");
  return text == nullptr ? 0 : std::max(0.0, std::atof(text));
}

}  // namespace

double activity_limit(const ThreadActivity& activity) {
  return activity.longest_s > 0 ? std::max(kLongActivity, kTimesBefore * activity.longest_s) : activity.patience_s;
}

bool is_stuck(double seconds, double expected_s) {
  return seconds > activity_limit({.text = {}, .since_s = 0, .longest_s = expected_s, .patience_s = kLongActivity});
}

SilenceVerdict judge_silence(const WorkerSigns& signs, const WaitLimits& limits) {
  SilenceVerdict verdict = judge_what_it_does(signs, limits);
  const bool over = limits.ends_s > 0 && signs.now_s >= limits.ends_s;
  if (!over || ends_worker(verdict.silence)) return verdict;
  return {Silence::out_of_time, longest_activity(signs), age(signs.last_reply_s, signs), 0};
}

bool ends_worker(Silence silence) {
  return silence > Silence::long_activity;
}

WorkerWatch::WorkerWatch(WaitOptions options)
    : options_(std::move(options)), last_look_s_(monotonic_seconds()), last_reply_s_(last_look_s_), watched_since_s_(last_look_s_) {}

void WorkerWatch::note_reply() {
  last_reply_s_ = monotonic_seconds();
}

SilenceVerdict WorkerWatch::look(pid_t worker) {
  WorkerSigns signs;
  signs.now_s = monotonic_seconds();
  missed_s_ = signs.now_s - last_look_s_ > kGap ? signs.now_s - last_look_s_ : 0;
  if (missed_s_ > 0) watched_since_s_ = signs.now_s;
  last_look_s_ = signs.now_s;
  signs.watched_since_s = watched_since_s_;
  signs.last_reply_s = last_reply_s_;
  signs.beat_s = board_.beat_s();
  signs.last_change_s = board_.last_change_s();
  signs.activities = board_.activities();
  if (const double asked_s = asked_patience(); asked_s > 0)
    for (ThreadActivity& activity : signs.activities)
      if (activity.patience_s != kWaitsForOthers) activity.patience_s = asked_s;
  if (signs.now_s - last_life(signs) > kLifeless / 2) {
    const ProcessState process = state_of_process(worker).value_or(ProcessState{});
    signs.stopped = process.state == 'T';
    signs.debugged = process.state == 't';
  }
  SilenceVerdict verdict = judge_silence(signs, options_.limits);
  if (verdict.silence == Silence::long_activity) tell_once(verdict);
  return verdict;
}

void WorkerWatch::tell_once(const SilenceVerdict& verdict) {
  if (!options_.tell || !told_.insert(verdict.doing).second) return;
  options_.tell(verdict.doing + " has taken " + std::to_string(static_cast<int>(verdict.seconds)) + " s; mptune waits up to " +
                std::to_string(static_cast<long>(verdict.limit_s)) + " s for it");
}

std::string WorkerWatch::doing() const {
  if (std::string text = board_.ended_in(); !text.empty()) return text;
  std::set<std::string> all;
  for (const ThreadActivity& activity : board_.activities()) all.insert(activity.text);
  std::string joined;
  for (const std::string& text : all) joined += (joined.empty() ? "" : ", ") + text;
  return joined;
}

}  // namespace mptune::tuner
