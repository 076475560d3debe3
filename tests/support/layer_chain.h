#pragma once

#include "mptune/profiler/trace/profile.h"

namespace mptune {

/// The chain of a layer graph: layers between which at most one tensor is live at a time (articulation points of the graph), what lies
/// between two of them merged into one layer. A chain comes back as it is.
///
///     conv1 -> bn1 -> add -> relu        conv1 -> bn1-add -> relu
///       '--------------^            =>
///
/// Merged layers add up times (medians), kept bytes and parameters; their workspace is the largest, their name "first-last". Forbidden cuts
/// stay forbidden where they lie between two layers of the chain.
/// Requires: edges forward in the order of layers, those of one layer of one size (one tensor each, as graph.txt has them).
[[nodiscard]] Profile layer_chain(const Profile& graph);

}  // namespace mptune
