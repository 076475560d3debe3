#pragma once

#include <cstddef>
#include <cstdint>

namespace mptune::planner {

/// How the parts of a search share out the work, and how much each part tries. Work is counted in simulated actions
/// (SearchSpace::most_actions). A part with a WorkDivisor gets 1 / this of the work that is left when it begins, unless stated otherwise.
struct SearchBudget {
  // Families that are listed.
  static constexpr int kMostShapes = 4'096;                   ///< ways to share all devices out to stages
  static constexpr int kFirstVirtual = 2;                     ///< stages per device that are listed, where the space does not say
  static constexpr std::size_t kMostFurtherFamilies = 2'000;  ///< families of one number of stages per device above that

  // Bounds and cuts to try first.
  static constexpr int kSeeds = 48;                          ///< families of which a promising plan is tried before any search
  static constexpr int kMostSharpened = 128;                 ///< stages of a family above which a better bound takes too long
  static constexpr std::int64_t kStepsPerSharpening = 16;    ///< steps of finding a bound that cost as much as a simulated action
  static constexpr double kEvenness[] = {0.75, 0.85, 0.65};  ///< evenness of the stages in cuts that are tried, the likeliest first

  // Searches of cuts with partition(), in rounds. The families with the smallest bounds may visit more nodes, since the proof needs them,
  // and they often hold the best plan.
  static constexpr std::int64_t kProofWorkDivisor = 2;  ///< share of families with a proof, where there are also families without one
  static constexpr std::int64_t kFirstNodes = 250;      ///< nodes (partial plans) that a family may visit in the first round
  static constexpr std::int64_t kNodesGrowth = 16;      ///< growth of this number per round
  static constexpr std::int64_t kMostNodes = std::int64_t{1} << 40;
  static constexpr std::int64_t kLeastNodes = 64;
  static constexpr int kFavouredFamilies = 4;                ///< families with the smallest bounds that get more nodes
  static constexpr std::int64_t kFavouredFactor = 64;        ///< this many times as many
  static constexpr std::int64_t kNodesPerAction = 2;         ///< nodes that cost as much as a simulated action
  static constexpr std::int64_t kSetUps = 3;                 ///< set-up cost of a search, in simulated plans
  static constexpr std::int64_t kSlowRowsWorkDivisor = 4;    ///< most work of a family where every node may need a simulation
  static constexpr std::int64_t kAlternativeNodes = 20'000;  ///< nodes of a family that is searched for the next best plans

  // Families whose memory caps decide what is recomputed.
  static constexpr int kFirstListed = 8;   ///< plans that the first search of a family lists
  static constexpr int kListedGrowth = 8;  ///< growth of this number per search
  static constexpr int kMostListed = 4'096;
  static constexpr double kRecomputedRatio = 1.5;  ///< a step with all stages recomputed takes at most about this many times that without
  /// Searches for plans that fit in pieces get 1 / this of all work, and each family gets 1 / this of what is left of that.
  static constexpr std::int64_t kPiecesWorkDivisor = 4;
  static constexpr std::int64_t kNodesPerRange = 8;        ///< nodes of such a search for each range of layers that it tries
  static constexpr std::int64_t kThoroughWorkDivisor = 8;  ///< share of all work for choosing thoroughly what to recompute
  static constexpr double kMostSavedByEffort = 1.1;        ///< a quick choice makes a step at most about this many times the best one
  static constexpr std::size_t kMostOffloading = 4;        ///< plans that fit only by offloading and are kept

  // Families of `list`, whose rows take as long as dozens of simulations: before the searches of cuts, and after them.
  static constexpr std::int64_t kFirstListsWorkDivisor = 2;
  static constexpr int kFirstLists = 8;                 ///< families that are tried before
  static constexpr int kFirstListMoves = 16;            ///< cuts tried around the best ones of the best of these
  static constexpr std::size_t kListsOfMoreStages = 3;  ///< families of each further number of stages per device that are tried before
  static constexpr std::size_t kLists = 6;              ///< families that are tried after
  static constexpr int kListMoves = 8;                  ///< cuts tried around the best ones of the best of these

  // Families without paths to bound cuts: idle devices help, or there are further stages per device.
  static constexpr std::int64_t kOneByOneWorkDivisor = 4;
  static constexpr std::int64_t kAllCutsWorkDivisor = 16;  ///< most work of a family of which all cuts are tried
  static constexpr std::int64_t kMostCutSets = 4'096;      ///< most sets of cuts of such a family
  static constexpr int kImprovedFamilies = 6;              ///< other families whose best cuts are moved, if they are promising
  static constexpr double kPromising = 1.1;                ///< a promising family has a step of at most this many times the best one
  static constexpr int kMoves = 64;                        ///< cuts tried around the best ones of a family
  static constexpr int kMoreStagesFailures = 2;  ///< numbers of stages per device in a row without a faster plan that end the search

  // Plans that can't be executed.
  static constexpr std::int64_t kBeyondWorkDivisor = 4;
  static constexpr std::int64_t kBeyondNodes = 4'000;  ///< nodes that a family may visit
  static constexpr int kBeyondLists = 6;               ///< families of `list` of which a plan is made, which takes milliseconds

  // Searches beside that of the fastest plan.
  static constexpr std::int64_t kSlowerKindWorkDivisor = 8;  ///< the slower one of pipelines and hybrids
  static constexpr std::int64_t kHalfMemoryWorkDivisor = 8;  ///< pipelines within half the memory

  // Finished plans.
  static constexpr int kMostFused = 4;                   ///< plans whose weight gradients are fused
  static constexpr std::int64_t kFusedWorkDivisor = 16;  ///< share of each of them
  static constexpr std::int64_t kLeastFused = 64;        ///< group sizes that are simulated for each of them in any case
  static constexpr int kMostOffloaded = 4;               ///< plans whose recomputing stages offload instead
  static constexpr double kLeastOffloadGain = 0.02;  ///< a smaller gain is less than the error in predictions of copies beside computing

  // Models whose layers are a graph.
  static constexpr std::int64_t kChainWorkDivisor = 2;    ///< the search as a chain
  static constexpr double kChainTime = 0.6;               ///< part of the time for this search
  static constexpr int kGraphStarts = 6;                  ///< states that are improved
  static constexpr int kGraphFinished = 4;                ///< states that get rows made with all effort
  static constexpr std::int64_t kGraphRatings = 6;        ///< simulated steps that cost about as much as a quick rating
  static constexpr std::int64_t kGraphListRatings = 200;  ///< simulated steps that cost as much as making rows with all effort

  // Divisions of a pool. The first three are parts of the work and of the time. What is left is for the best division, if that is not the
  // one that was the most promising.
  static constexpr double kDivisionsLooked = 0.25;        ///< until all divisions were looked at
  static constexpr double kFirstDivisionSearched = 0.65;  ///< until the most promising one was searched
  static constexpr double kOtherDivisionsSearched = 0.8;  ///< until the others were
  static constexpr double kShareOfOthers = 0.25;          ///< part that each of the others gets of what is left for them
  static constexpr std::size_t kOtherDivisions = 16;      ///< about this many others are searched
  /// Families listed in the first look at all divisions, and in all searches that follow: where devices differ, listing families takes as
  /// long as searching them.
  static constexpr std::size_t kDivisionFamilies = 100'000;
  static constexpr int kLeastDivisionFamilies = 200;  ///< families listed for each division at least
};

}  // namespace mptune::planner
