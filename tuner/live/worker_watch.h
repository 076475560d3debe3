#pragma once

#include <sys/types.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "profiler/base/activity.h"

namespace mptune::tuner {

/// A worker that beats does so twice a second; one that has not for so long does not run [s].
inline constexpr double kLifeless = 10;
/// Something that takes longer, and has not before, is told to the user [s].
inline constexpr double kLongActivity = 10;

/// What is known of a worker that has not answered yet. Times are seconds on the steady clock.
struct WorkerSigns {
  double now_s = 0;
  double watched_since_s = 0;  ///< earlier times do not count: this process was stopped itself, or did not look
  double last_reply_s = 0;
  double beat_s = 0;         ///< 0: it never beat, as workers that do not know the board
  double last_change_s = 0;  ///< on the board; 0: none
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
  lifeless,          ///< no beat for as long
};

struct SilenceVerdict {
  Silence silence = Silence::none;
  std::string doing = {};  ///< the activity, "" for none
  double seconds = 0;      ///< how long it has lasted; of out_of_time: since the last reply
  double limit_s = 0;      ///< how long it may last
};

/// How long a worker is waited for.
struct WaitLimits {
  double quiet_s = 120;  ///< see Silence::quiet
  double ends_s = 0;     ///< when its time is over, and it is ended whatever it does; 0: never
};

/// The rule that tells stuck from slow: an activity is stuck once it takes 10 times what it took before, and at least kLongActivity; the
/// first time once it takes longer than its own patience. What is shorter is slow, also where the time is over.
[[nodiscard]] double activity_limit(const ThreadActivity& activity);

/// The same of something that was expected to take so long, 0 where nothing is known of it, and has lasted for `seconds`.
[[nodiscard]] bool is_stuck(double seconds, double expected_s);

/// Judges the gravest silence. A thread that waits for another process (kWaitsForOthers) does nothing.
[[nodiscard]] SilenceVerdict judge_silence(const WorkerSigns& signs, const WaitLimits& limits);

/// Whether the verdict ends the worker.
[[nodiscard]] bool ends_worker(Silence silence);

/// How a caller waits for a worker.
struct WaitOptions {
  WaitLimits limits = {};
  /// Is told, in a clause, what takes long; each once. May be empty.
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
  /// How long this process did not run before the last look, which no deadline should count [s].
  [[nodiscard]] double missed_s() const { return missed_s_; }
  /// What the worker did when it ended itself, else everything that it does: "the forward of layer 'a'"; "" for nothing.
  [[nodiscard]] std::string doing() const;
  /// Whether a fatal signal that ended the worker came from another program.
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
