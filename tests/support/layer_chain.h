#pragma once

#include "profiler/trace/values/profile.h"

namespace mptune::testing {

/// Merges the layers of a graph into a chain: one layer between each two places where at most one tensor is live (articulation points).
/// A chain is returned unchanged.
///
///     conv1 -> bn1 -> add -> relu        conv1 -> bn1-add -> relu
///       '--------------^            =>
///
/// A merged layer has the sum of times (medians), saved bytes and parameters, the largest workspace, and the name "first-last".
/// Forbidden cuts between two layers of the chain stay forbidden.
/// Requires: edges lead forward in the order of layers; all edges from one layer have the same size (one tensor, as in graph.txt).
[[nodiscard]] Profile layer_chain(const Profile& graph);

}  // namespace mptune::testing
