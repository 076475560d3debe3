#pragma once

#include "planner/cost/cost_model.h"
#include "planner/search/search_result.h"

namespace mptune::planner {

/// Searches plans of a model whose layers are a graph. This is search_plans() for the cost model of a graph.
///
/// First the graph is searched as a chain. Where every layer has an edge to the next one, the chain consists of these edges (backbone), and
/// its bounds hold for the graph; else it consists of layers that pass on what later ones read. The plans found are then priced as the
/// graph, with rows made for it. Then come plans that no chain would have, improved step by step: stages that begin where a branch does, on
/// any device, so that branches run at once,
///
///     device 0:  A0 A1 A2 ..          stage A, the first branch
///     device 1:  B0 H0 B1 H1 ..       stages B and H, the second branch and the head that joins both
///
/// with cuts moved, stages divided, joined and put on other devices as long as the step gets shorter. The best of all wins. Stages are
/// ranges of the profile's order of layers; other orders are not tried. A plan is proved best if it reaches a bound of the backbone or
/// graph_bound_ns().
[[nodiscard]] SearchResult search_graph(const SearchSpace& space, const CostModel& cost);

/// This is memory_front() for the cost model of a graph: the front of the graph as a chain, priced as the graph that it is, and the plans
/// `known`.
[[nodiscard]] std::vector<Candidate> graph_front(const SearchSpace& space, const CostModel& cost, double share,
                                                 const std::vector<Candidate>& known);

}  // namespace mptune::planner
