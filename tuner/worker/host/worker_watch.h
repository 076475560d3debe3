#pragma once

#include <sys/types.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "profiler/base/activity.h"

namespace mptune::tuner {

/// A worker that beats does so twice a second; one that has not beaten for this long does not run [s].
inline constexpr double kLifeless = 10;
/// The user is told about an activity that takes longer than this, and has not before [s].
inline constexpr double kLongActivity = 10;

/// What is known about a worker that has not answered yet. Times are seconds on the steady clock.
struct WorkerSigns {
  double now_s = 0;
  double watched_since_s = 0;  ///< earlier times do not count: this process was stopped itself, or did not look
  double last_reply_s = 0;
  double beat_s = 0;         ///< 0: it never beat, like workers that do not know the board
  double last_change_s = 0;  ///< last change on the board; 0: none
  bool stopped = false;      ///< by a signal
  bool debugged = false;     ///< stopped by a debugger, which may take its time
  std::vector<ThreadActivity> activities = {};
};

enum class Silence {
  none,
  long_activity,     ///< the user should know; the worker may go on
  out_of_time,       ///< its time is over, and nothing says that it is stuck: it is slow
  endless_activity,  ///< something takes longer than it may
  quiet,             ///< no reply, and no thread began or ended anything
  stopped,           ///< by a signal, for kLifeless
  lifeless,          ///< no beat for kLifeless
};

struct SilenceVerdict {
  Silence silence = Silence::none;
  std::string doing = {};  ///< the activity, "" for none
  double seconds = 0;      ///< how long it has lasted; for out_of_time: since the last reply
  double limit_s = 0;      ///< how long it may last
};

/// How long a worker is waited for.
struct WaitLimits {
  double quiet_s = 120;  ///< see Silence::quiet
  double ends_s = 0;     ///< when its time is over and it is ended, whatever it does; 0: never
};

/// Returns how long an activity may last before it counts as stuck: 10 times what it took before, and at least kLongActivity; the first
/// time, its own patience. A shorter activity is only slow, also where the time is over.
[[nodiscard]] double activity_limit(const ThreadActivity& activity);

/// Applies the same rule to something that has lasted for `seconds` and was expected to take `expected_s`, 0 where nothing is known about
/// it.
[[nodiscard]] bool is_stuck(double seconds, double expected_s);

/// Returns the gravest silence. A thread that waits for another process (kWaitsForOthers) does nothing.
[[nodiscard]] SilenceVerdict judge_silence(const WorkerSigns& signs, const WaitLimits& limits);

/// Returns whether the verdict ends the worker.
[[nodiscard]] bool ends_worker(Silence silence);

/// How a caller waits for a worker.
struct WaitOptions {
  WaitLimits limits = {};
  /// Is called once for each activity that takes long, with a clause that names it. May be empty.
  std::function<void(const std::string&)> tell = {};
};

/// Watches one worker through the board that it inherits. Looks are cheap; several a second are expected.
class WorkerWatch {
 public:
  explicit WorkerWatch(WaitOptions options);

  [[nodiscard]] int descriptor() const { return board_.descriptor(); }
  void note_reply();
  /// Judges the worker, and tells the user what takes long.
  [[nodiscard]] SilenceVerdict look(pid_t worker);
  /// Returns how long this process did not run before the last look [s]; no deadline should count this time.
  [[nodiscard]] double missed_s() const { return missed_s_; }
  /// Returns what the worker did when it ended itself, otherwise everything that it does now: "the forward of layer 'a'"; "" for nothing.
  [[nodiscard]] std::string doing() const;
  /// Returns whether a fatal signal that ended the worker came from another program.
  [[nodiscard]] bool ended_by_another() const { return board_.ended_by_another(); }

 private:
  void tell_once(const SilenceVerdict& verdict);

  WaitOptions options_;
  ActivityBoard board_;
  double last_look_s_;
  double last_reply_s_;
  double watched_since_s_;
  double missed_s_ = 0;
  std::set<std::string> told_;
};

}  // namespace mptune::tuner
