#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/search/bounds/stage_limit.h"
#include "planner/search/search_result.h"
#include "reports/values/report.h"

namespace mptune::reports {

struct PlannedStage {
  std::vector<std::string> devices;
  int first_layer = 0;
  int last_layer = 0;
  std::vector<int> recomputed;  ///< layers
  bool offload = false;         ///< see Stage
  std::string modules;          ///< "layer1.0 .. layer2.3", "" where they are not known
  double step_s = 0;            ///< time of its layers in a step
  std::string beyond_step{};    ///< why `step_s` is more than the step; "" where it is not
  std::int64_t peak_bytes = 0;
};

/// A plan besides the best one.
struct PlannedOther {
  double step_s = 0;
  std::int64_t peak_bytes = 0;
  std::string what;  ///< what differs from the best plan, or what it is
};

/// Everything that `plan` shows a person, as plain values.
struct PlanReport {
  std::string title;        ///< "resnet50: 32 samples"
  std::string description;  ///< of the best plan
  double step_s = 0;
  double lower_bound_s = 0;       ///< of the search space; 0: not known
  bool complete = false;          ///< proved the fastest of the plans that the proof covers
  bool may_fuse = false;          ///< fused weight gradients were allowed and may pay: neither the lower bound nor the proof covers them
  bool may_offload = false;       ///< offloading of saved activations was allowed: neither the lower bound nor the proof covers it
  bool runs = true;               ///< the runtime executes it
  double schedule_bound_s = 0;    ///< lower bound of the best plan's stages under any schedule
  std::int64_t excess_bytes = 0;  ///< over the cap of a device, by the simulator's count: only other objectives allow it
  std::string excess_device;
  bool extrapolated = false;  ///< micro-batch sizes outside the profiled ones
  std::vector<PlannedLayer> layers;
  std::vector<PlannedStage> stages;
  std::string limit;  ///< which stage limits and why; "" for one stage
  TraceReport trace;  ///< predicted: the timeline
  std::vector<PlannedOther> alternatives;
  std::vector<PlannedOther> front;  ///< step time against memory, fastest first
  std::vector<Rejection> rejected;
  std::vector<RejectedClass> classes;
  std::vector<PlannedOther> not_executable;  ///< fastest first; `what` includes the reason
  std::vector<std::string> next;             ///< lines on what to do with the plan: its file, the command that trains with it
  std::vector<std::string> notes;            ///< how it was searched, what was assumed
};

/// Builds the report. `front`: as memory_front() made it; `space`: what was searched. Requires: a ranked plan.
[[nodiscard]] PlanReport build_plan_report(const SearchResult& result, const std::vector<Candidate>& front, const CostModel& cost,
                                           const SearchSpace& space);

/// Returns the layers of a plan with their times. Requires: a valid plan that `cost` prices.
[[nodiscard]] std::vector<PlannedLayer> planned_layers(const Plan& plan, const CostModel& cost);

/// Compares a plan with the best one in a clause: "1.2 % slower: schedule: 1f1b -> gpipe", "3.0 % slower: pipeline of 2 stages, 1f1b, 4
/// micro-batches of 8, cuts 5".
[[nodiscard]] std::string compared_with(const Candidate& best, const Candidate& other);

}  // namespace mptune::reports
