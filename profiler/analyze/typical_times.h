#pragma once

#include <compare>
#include <map>
#include <tuple>
#include <vector>

#include "mptune/profiler/analyze/step_work.h"

namespace mptune {

/// How long work lasts in a replay. Each level adds one trouble to the one before; the first has none.
enum class Typical {
  balanced,    ///< every stage takes the mean over the stages, copies take no time
  copied,      ///< the same, copies take their median
  uneven,      ///< every stage takes its own median over replicas and steps
  per_device,  ///< every stage takes its median on each device over the steps
  actual,      ///< as recorded
};

/// Durations of a recording's work at each level; medians need all its steps. Work is compared by what it is, its stage and the place
/// of its micro-batch among those of its replica. What belongs to no stage lasts as recorded at every level.
class TypicalTimes {
 public:
  explicit TypicalTimes(const std::vector<StepWork>& steps);
  /// One duration per piece of work of a step given to the constructor.
  [[nodiscard]] std::vector<Nanoseconds> durations(const StepWork& step, Typical level) const;

 private:
  /// What is alike; -1 where it makes no difference.
  struct Kind {
    What what = What::forward;
    int name = -1;  ///< of copies: activations and gradients differ
    int place = -1;
    int stage = -1;
    int device = -1;
    auto operator<=>(const Kind&) const = default;
  };
  [[nodiscard]] Kind kind_of(const Work& work) const;
  [[nodiscard]] Nanoseconds duration(const Work& work, Typical level) const;

  std::map<std::tuple<int, int, int>, int> places_;  ///< by stage, replica, micro-batch
  std::map<Kind, Nanoseconds> typical_;
};

/// Mean step if every operation took what is usual for its kind over all stages, micro-batches, replicas and steps: the mean for
/// computation, the median for communication. It is what the schedule would give on even stages and machines (the ideal of straggler
/// analysis, arXiv 2505.05713). 0 without steps.
[[nodiscard]] Nanoseconds ideal_step(const std::vector<StepWork>& steps);

}  // namespace mptune
