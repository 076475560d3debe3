#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "reports/cli/program/session.h"

namespace mptune::reports {

/// Shows on stderr what is being done, how far it is, the time left and the best step so far. On a terminal it updates one line; elsewhere
/// it prints a line at once and every 10 s, and under --verbose a line for every new task. The share that is done never falls. Prints
/// nothing under --quiet. Thread-safe.
class ProgressLine {
 public:
  /// With a budget, the share done and the time left are those of the budget; update()'s fraction is ignored.
  explicit ProgressLine(const Session& session, double budget_s = 0);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Begins a part of the whole: update()'s fractions then count from `begin` to `end`.
  void begin_part(double begin, double end);
  /// Shows `what` is being done. `fraction`: share of the part, 0 to 1; below 0: not known.
  void update(const std::string& what, double fraction);
  /// Sets a note that is shown after the rest: "best 301 ms".
  void note(const std::string& note);

 private:
  void loop();
  void show();
  /// Returns a line at most `columns` wide. The task's name is shortened before the numbers are.
  [[nodiscard]] std::string line(int columns) const;

  bool live_;
  bool quiet_;
  bool verbose_;
  int width_;
  double budget_s_;
  std::chrono::steady_clock::time_point started_;
  std::chrono::steady_clock::time_point shown_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::string what_;
  std::string note_;
  double part_begin_ = 0;
  double part_end_ = 1;
  double fraction_ = -1;  ///< share of the whole, the largest so far
  bool on_line_ = false;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace mptune::reports
