#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "mptune/planner/parallelism.h"
#include "mptune/planner/search/search.h"
#include "mptune/profiler/trace/profile.h"
#include "mptune/tuner/recommend.h"

namespace mptune {

/// The fastest plan of a kind that the search knows.
struct KindOnPaper {
  std::string description;
  double step_s = 0;
  std::vector<std::int64_t> peak_bytes;
  bool operator==(const KindOnPaper&) const = default;
};

/// The fastest plan on paper of another number of devices like these.
struct OtherDevices {
  int devices = 0;
  Parallelism kind = Parallelism::one_device;
  double step_s = 0;
  bool operator==(const OtherDevices&) const = default;
};

/// What the table of kinds needs beside trials; a study keeps it.
struct KindFacts {
  std::vector<std::string> whole_machine;       ///< devices of all cores
  std::map<Parallelism, KindOnPaper> on_paper;  ///< by kind
  std::map<Parallelism, std::string> no_plan;   ///< by kind: why the search has none
  std::vector<OtherDevices> other_devices;      ///< ascending
  bool operator==(const KindFacts&) const = default;
};

/// What the search says of each kind.
[[nodiscard]] KindFacts kind_facts(const SearchSpace& space, const SearchResult& search, const CostModel& cost);

/// What half as many and twice as many devices (of at most 8) like these would take on paper: bounded searches. Empty where the options
/// restrict the plans; nothing of more devices where these are not all alike.
[[nodiscard]] std::vector<OtherDevices> other_devices(const SearchSpace& space, const Profile& profile);

/// Which kind of parallelism is best here: a row for each of kParallelisms out of the trials of the final series, else of those before it,
/// else why there is none; and what follows, a sentence each, the answer first. The row of the recommended plan's kind is that plan.
[[nodiscard]] KindComparison compare_kinds(const RecommendedPlan& recommended, const std::vector<Trial>& final_series,
                                           const std::vector<Trial>& all, const KindFacts& facts);

}  // namespace mptune
