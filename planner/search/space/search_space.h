#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/plan/executable.h"
#include "planner/plan/plan.h"
#include "planner/simulate/simulate.h"

namespace mptune {

/// A plan and what the cost model says of it.
struct Candidate {
  Plan plan;
  Prediction prediction;
};

/// One of the device lists to choose from where a pool may be divided in several ways.
struct Division {
  std::vector<std::string> devices;
  std::vector<std::int64_t> memory_bytes;  ///< cap of each device; 0 or an empty list: no cap
  bool operator==(const Division&) const = default;
};

/// What a search may choose from.
struct SearchSpace {
  std::vector<std::string> devices;        ///< distinct; each runs one stage, one replica of a stage, or several stages
  std::vector<std::string> whole_machine;  ///< devices of all cores ("cpu:0-1"), for plans of one stage; may be empty
  std::vector<std::int64_t> memory_bytes;  ///< cap of each of `devices`; 0 or an empty list: no cap
  std::int64_t whole_machine_memory_bytes = 0;
  std::vector<Division> divisions;  ///< device lists: plans over any of them are searched, in place of those over `devices`; may be empty
  int batch = 0;
  std::vector<int> microbatch_counts;  ///< empty: 1, 2, 3, 4, 6, 8, 12, 16, 24, 32 .. up to the batch
  SampleRange samples;                 ///< samples that the model takes in a micro-batch; other counts are left out
  std::vector<std::string> schedules;  ///< empty: all
  std::vector<int> stage_counts;       ///< empty: all that the devices allow
  std::vector<int> virtual_counts;     ///< stages per device; empty: 1, 2, 3 .. as StagesPerDevice says
  std::vector<std::vector<int>> cuts;  ///< empty: all; else only these
  std::vector<int> cut_places;         ///< ascending layers before which stages may begin (with_cut_places()); empty: all
  std::string recompute;               ///< empty: as little as the caps require; else see PlanOptions::recompute
  std::vector<int> replicas;  ///< devices per stage; empty: one each, and every way to share all devices out to the stages; else only these
  std::vector<ExecutionVariant> variants;  ///< empty: the default; variants that the profile has no costs for are left out
  bool exact = false;                      ///< only plans for which is_exact()
  bool keep_numerics = false;              ///< only plans without changed_numerics(): read by suited_space()
  bool no_replicas = false;                ///< every stage has one device
  Capabilities capabilities;               ///< what the runtime can execute; plans that need more are not ranked
  bool idle_devices_help =
      false;                   ///< also plans whose idle devices help, if all `devices` can (planner/plan/helping.h) and the runtime does
  bool look_beyond = true;     ///< also list plans that need more than `capabilities`, if they would be faster
  int keep = 32;               ///< number of plans to return
  int most_families = 20'000;  ///< families of plans that are listed; others are counted and bounded
  double longest_s = std::numeric_limits<double>::infinity();  ///< finite: among plans of several stages, only faster ones are searched for
  std::int64_t most_actions = 16'000'000;  ///< limit of the work, in simulated actions; `rejected` counts what the search did not reach
  /// Asked every few milliseconds whether the part of the time that the search may use so far, above 0 to 1, is spent. The part is less
  /// than 1 while more `variants` are to be searched. True ends the search of this variant with the plans found so far.
  std::function<bool(double)> stop;
  std::function<void(const Candidate&)> improved;  ///< called with every executable plan that is faster than all earlier ones
};

}  // namespace mptune
