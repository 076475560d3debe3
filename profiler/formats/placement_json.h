#pragma once

#include <string>

#include "mptune/profiler/formats/placement_graph.h"
#include "mptune/profiler/formats/text_input.h"

namespace mptune {

/// Reads a workload of dnn-partitioning (Tarnawski et al., NeurIPS 2020) in JSON: `nodes` {id, name, fpgaLatency, cpuLatency, size,
/// colorClass, isBackwardNode, supportedOnFpga}, `edges` {sourceId, destId, cost}, `maxSizePerFPGA`, `maxFPGAs`, `maxCPUs`. "FPGA" stands
/// for any accelerator. Latencies and costs are milliseconds, sizes bytes; nodes of one colour (a layer's forward and its backward) share a
/// device. Edges of one source with one cost are one tensor.
/// Throws Error with the byte, or with the place as a JSON pointer: not JSON, deeper than 8 levels, more than 16 MiB; a value missing, of
/// the wrong type, negative or beyond an hour or 4 TiB in all; a node twice or unknown, a cycle, an edge from a backward node to a forward
/// one; more than 10,000 nodes or 100,000 edges.
[[nodiscard]] PlacementGraph read_placement_json(TextInput& input);
/// The same of a file, gzip or not; the graph is named like the file.
[[nodiscard]] PlacementGraph read_placement_json(const std::string& path);

}  // namespace mptune
