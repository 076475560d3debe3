#pragma once

#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mptune {

/// How long something may take that this process has not done before, unless its Activity says otherwise [s].
inline constexpr double kPatienceSeconds = 60;
/// Patience for what waits for another process, which is watched itself: it counts as doing nothing.
inline constexpr double kWaitsForOthers = std::numeric_limits<double>::infinity();

/// While the object lives, the calling thread does `what`, such as "the forward of layer 'conv1'"; afterwards the thread does again what it
/// did before. Costs nothing unless publish_activities() was called, else some 100 ns. Any thread may use it; it ends on the thread on
/// which it began.
class Activity {
 public:
  /// The text is `what`, then `name` in quotes unless it is "", cut to 159 bytes. `patience_s`: how long it may take the first time.
  explicit Activity(std::string_view what, std::string_view name = {}, double patience_s = kPatienceSeconds);
  ~Activity();
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

 private:
  struct Before;
  std::unique_ptr<Before> before_;
};

/// Publishes what the threads of this process do on the ActivityBoard behind the descriptor, and a beat twice a second. From now on, the
/// thread in which the process ends itself, by a fatal signal or exit(), is noted on the board; exit() then ends the process at once. Call
/// this once, at the start of main. It has no effect if the descriptor is not a board's.
void publish_activities(int descriptor);

/// Returns the innermost activity that the last exception left, on whichever thread; "" if there is none. Works after publish_activities().
[[nodiscard]] std::string activity_left_by_exception();

/// What one thread does.
struct ThreadActivity {
  std::string text;
  double since_s = 0;     ///< steady clock
  double longest_s = 0;   ///< that the thread took for it before; 0: it does so the first time
  double patience_s = 0;  ///< how long it may take the first time
};

struct ActivityMemory;

/// Shared memory in which one other process says what its threads do. It can be read after that process has died, however it died.
/// Use from one thread.
class ActivityBoard {
 public:
  /// Throws Error (environment) if the system has no memory for the board.
  ActivityBoard();
  ~ActivityBoard();
  ActivityBoard(const ActivityBoard&) = delete;
  ActivityBoard& operator=(const ActivityBoard&) = delete;

  /// Returns the descriptor for publish_activities() in the other process, which must inherit it. It is closed with this object. -1 where
  /// the system refuses shared memory: then the board stays empty.
  [[nodiscard]] int descriptor() const;
  /// Returns the time of the last beat [s on the steady clock]; 0: none yet.
  [[nodiscard]] double beat_s() const;
  /// Returns when a thread last began or ended something [s on the steady clock]; 0: none yet.
  [[nodiscard]] double last_change_s() const;
  /// Returns what the threads do now. Threads that do nothing are left out.
  [[nodiscard]] std::vector<ThreadActivity> activities() const;
  /// Returns what the thread did in which the process ended itself; "" if the process did not end itself or that thread did nothing.
  [[nodiscard]] std::string ended_in() const;
  /// True if the process ended by a signal that another process sent, one of those that end a process which makes a mistake (SIGSEGV,
  /// SIGABRT, SIGBUS, SIGFPE, SIGILL).
  [[nodiscard]] bool ended_by_another() const;

 private:
  ActivityMemory* memory_ = nullptr;
  int descriptor_ = -1;
};

}  // namespace mptune
