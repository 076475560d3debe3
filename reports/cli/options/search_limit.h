#pragma once

#include <algorithm>
#include <chrono>
#include <string>

#include "planner/search/space/search_space.h"
#include "profiler/base/error.h"
#include "profiler/base/units.h"
#include "tuner/worker/host/interrupt.h"

namespace mptune::reports {

/// Says when a search ends: with --time, or on Ctrl-C.
class SearchLimit {
 public:
  /// `time`: the value of --time; "": a limit of the work instead.
  explicit SearchLimit(const std::string& time) : limit_s_(time.empty() ? 0 : parse_seconds(time, "--time")) {
    if (!time.empty() && limit_s_ <= 0) throw Error("the time must be longer than 0", "--time", "give a time such as 10s");
  }

  /// Returns true with --time.
  [[nodiscard]] bool has_time() const { return limit_s_ > 0; }
  /// Bounds a search by `part` of the time, or by `actions`.
  void bound(double part, std::int64_t actions, SearchSpace& space) {
    space.most_actions = limit_s_ > 0 ? static_cast<std::int64_t>(std::min(1e15, kActionsPerSecond * limit_s_)) : actions;
    space.stop = [this, part](double of_part) { return interrupted() || out_of_time(part * of_part); };
  }
  [[nodiscard]] static bool interrupted() { return tuner::interrupt_flag().load() != 0; }
  [[nodiscard]] double elapsed_s() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count(); }
  [[nodiscard]] bool out_of_time(double part) const { return limit_s_ > 0 && elapsed_s() >= limit_s_ * part; }

 private:
  /// The number of actions that each second of --time counts for: searches share the work out to their parts.
  static constexpr double kActionsPerSecond = 600'000;

  double limit_s_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

}  // namespace mptune::reports
