#pragma once

#include <functional>
#include <string>
#include <vector>

#include "planner/plan/field.h"
#include "planner/search/search_result.h"
#include "planner/topology/topology.h"
#include "planner/topology/topology_search.h"
#include "profiler/trace/values/profile.h"

namespace mptune::reports {

/// A search for machines on paper that found no plan.
struct PaperQuestion {
  const planner::UniformSpace& space;  ///< its `memory_bytes` is not read
  const planner::Topology& topology;   ///< with --memory, if given
  const Profile& profile;
  std::vector<planner::Field> given;  ///< those of stages, microbatches and schedule that options restrict
  std::function<bool()> stop;         ///< returns true: no more is tried
};

/// Returns changes with which the search finds a plan, each of them tried: "--stages left out", "--batch 64", "6 hosts of 'node' in
/// paper.json", "--memory 34MiB". Numbers are the nearest that were tried: half the batch and half of that, and hosts and their memory
/// rounded up. Empty where no change helps.
[[nodiscard]] std::vector<std::string> changes_on_paper(const PaperQuestion& question, const SearchResult& failed);

}  // namespace mptune::reports
