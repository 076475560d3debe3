#pragma once

#include <cstdint>

#include "planner/plan/file/plan_file.h"
#include "tests/planner/profiles.h"

namespace mptune::planner {

/// A plan file with a value in every field.
inline PlanFile example() {
  PlanFile file;
  file.plan = testing::scheduled(testing::stages_of(6, {1, 2, 1}, {5, 5, 2}), "1f1b");
  file.plan.stages[1].recompute = {Recompute::Mode::some, {2, 3}, {1}};
  file.plan.stages[2].recompute.mode = Recompute::Mode::all;
  file.modules = {{"conv1", "bn1"}, {"layer1.0"}, {"fc"}};
  file.fingerprint = {"sha256:abc", "3x64x64:float32", {"sleep:0", "sleep:1"}, "2.11", ""};
  file.created = "2026-11-21T12:00:00Z";
  file.study = "sha256:def";
  file.trial = 17;
  file.predicted = PredictedStep{0.41, 0.39, {1, 2, 3, 4}};
  file.measured =
      MeasuredStep{0.1 + 0.2, Interval{0.416, 0.421}, 44, {5, 6, 7, std::int64_t{1} << 50}, Verdict::fast, "naive_model_parallel", {}};
  file.measured->speedup.estimate = 1.54;
  file.measured->speedup.ci95 = Interval{1.52, 1.56};
  file.measured->speedup.range = Interval{1.4, 1.6};
  file.measured->speedup.pairs = 44;
  file.alternatives.push_back({"2.1 GiB less memory", testing::scheduled(testing::stages_of(6, {4}, {3, 3, 3, 3}), "1f1b")});
  return file;
}

}  // namespace mptune::planner
