#pragma once

#include <compare>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "profiler/trace/analyze/step_work.h"

namespace mptune::profiler {

/// How long work lasts in a replay. Each level adds one source of delay to the one before.
enum class Typical {
  balanced,    ///< every stage takes the mean over the stages, copies take no time
  copied,      ///< every stage takes the mean over the stages, copies take their median
  uneven,      ///< every stage takes its own median over replicas and steps
  per_device,  ///< every stage takes its median on each device over the steps
  actual,      ///< as recorded
};

/// Durations of a recording's work at each level, from all of its steps.
/// Medians are taken over work of the same event kind, stage and rank of its micro-batch among those of its replica.
/// Work without a stage keeps its recorded duration at every level. So do weight gradients of a micro-batch that were computed in parts by
/// idle devices that help: which parts belong together depends on time.
class TypicalTimes {
 public:
  explicit TypicalTimes(const std::vector<StepWork>& steps);
  /// Returns one duration per piece of work of a step given to the constructor.
  [[nodiscard]] std::vector<Nanoseconds> durations(const StepWork& step, Typical level) const;

 private:
  /// Work with equal fields is alike; -1: the field does not matter at this level.
  struct Kind {
    EventKind kind = EventKind::forward;
    int name = -1;   ///< for copies only: activations and gradients differ
    int place = -1;  ///< rank of the micro-batch among those of its replica
    int stage = -1;
    int device = -1;
    auto operator<=>(const Kind&) const = default;
  };
  [[nodiscard]] bool has_typical(const Work& work) const;
  [[nodiscard]] Kind kind_of(const Work& work) const;
  [[nodiscard]] Nanoseconds duration(const Work& work, Typical level) const;

  std::map<std::tuple<int, int, int>, int> places_;  ///< Kind::place by stage, replica, micro-batch
  std::set<std::tuple<int, int, int>> in_parts_;     ///< weight gradients in several pieces of work, by stage, replica, micro-batch
  std::map<Kind, Nanoseconds> typical_;
};

/// Returns the mean step time if all stages and devices were equal (the ideal of the straggler analysis in arXiv 2505.05713); 0 without
/// steps. Computation takes the mean and communication the median of its kind, over all stages, micro-batches, replicas and steps.
[[nodiscard]] Nanoseconds ideal_step(const std::vector<StepWork>& steps);

}  // namespace mptune::profiler
