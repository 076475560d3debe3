#pragma once

#include <string>

#include "profiler/trace/formats/placement_graph.h"
#include "profiler/trace/formats/text_input.h"

namespace mptune::profiler {

/// Reads a workload of dnn-partitioning (Tarnawski et al., NeurIPS 2020) in JSON:
///   `nodes` {id, name, fpgaLatency, cpuLatency, size, colorClass, isBackwardNode, supportedOnFpga}, `edges` {sourceId, destId, cost},
///   `maxSizePerFPGA`, `maxFPGAs`, `maxCPUs`
/// "FPGA" stands for any accelerator. Latencies and costs are in milliseconds, sizes in bytes.
/// Nodes with the same colorClass (a layer's forward and backward) share a device. Edges with the same source and cost are one tensor.
///
/// Throws Error with the byte or a JSON pointer: not JSON, deeper than 8 levels, more than 16 MiB; a value missing, of the wrong type or
/// negative; more than an hour or 4 TiB in total; a node duplicate or unknown; a cycle; an edge from a backward node to a forward node;
/// more than 10,000 nodes or 100,000 edges.
[[nodiscard]] PlacementGraph read_placement_json(TextInput& input);
/// Does the same for a file, gzip or not; the graph gets the file's name.
[[nodiscard]] PlacementGraph read_placement_json(const std::string& path);

}  // namespace mptune::profiler
