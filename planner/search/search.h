#pragma once

#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/search/search_result.h"
#include "planner/search/space/search_space.h"

namespace mptune {

/// Finds the fastest plans of the space. It takes families of plans in the order of their lower bounds and searches the cuts of each with
/// partition(); the objective is the simulated step. It first finds a plan, then better ones, then the proof, then alternatives. The result
/// is deterministic for given limits.
/// SearchResult::ranked always holds the best plan of each kind (one device, all cores, data parallel, pipeline, hybrid, pipeline or hybrid
/// in half the memory), even if it is not among the `keep` fastest. Unless `exact`, it also holds plans with fused weight gradients: the
/// fastest plans that split their backward, changed where that is predicted to save at least 1 % (planner/search/finish/fuse_weights.h).
/// Where memory caps are given and the profile has copies between a device and the host's memory, it also holds plans that offload saved
/// activations (planner/search/finish/offload_stages.h), where that is predicted to save at least 2 % of the step, or no other plan fits;
/// no bound covers them. Among plans that differ only in their placement it holds the fastest. Throws Error if a choice is out of range, or
/// if no plan meets all choices. Plans get the cost model's execution variant; `space.variants` and `space.divisions` are not read. With a
/// finite `longest_s` the best plans of each kind and in half the memory may be missing.
[[nodiscard]] SearchResult search_plans(const SearchSpace& space, const CostModel& cost);

/// Searches all of `space.variants`, each by itself with an equal part of the work. `classes` compare plans in the best plan's memory
/// format. Throws Error as above, and where the profile has costs for none of the options. With `space.divisions`, each division is looked
/// at first with a part of the work; then those whose lower bound is below the best step are searched, the best so far first. All share the
/// best step found, so the answer is the best of all within the limit of the work.
[[nodiscard]] SearchResult search_plans(const SearchSpace& space, const Profile& profile);

/// Returns step time against memory: first the fastest plan of the space, then repeatedly the fastest whose largest peak is below the
/// previous plan's and at most `share` of it, until no plan fits. With share 1 this is the whole Pareto front. Each plan is proved optimal
/// or the best found. Memory falls and time rises from plan to plan. The limits of the space hold for all searches together. `known` are
/// plans that a search of this space ranked. The fastest of them is the first, and among those that fit further caps none is slower.
[[nodiscard]] std::vector<Candidate> memory_front(const SearchSpace& space, const CostModel& cost, double share,
                                                  const std::vector<Candidate>& known = {});
/// Returns the front over all of `space.variants` and `space.divisions`.
[[nodiscard]] std::vector<Candidate> memory_front(const SearchSpace& space, const Profile& profile, double share,
                                                  const std::vector<Candidate>& known = {});

}  // namespace mptune
