#pragma once

#include <string>

#include "profiler/trace/formats/text_input.h"
#include "profiler/trace/values/profile.h"

namespace mptune::profiler {

/// Reads a layer graph with skip connections, as PipeDream's profiler writes it and DAPPLE's planner reads it (`*.graph.txt`):
///
///     node4 -- Conv2d(3, 64) -- forward_compute_time=1.5, backward_compute_time=3, activation_size=4096.0, parameter_size=512
///         node4 -- node5
///
/// Times are in milliseconds, sizes in bytes. `activation_size=[a; b; c]` is a layer with several output tensors, which live together.
/// A file has one batch size and does not name it: `samples` is 1 in the result and means the profiled micro-batch.
/// Some sizes of DAPPLE's files were typed by hand in MiB of 10^6 bytes (VGG-19, layers of XLNet). No file says so; all are read as bytes,
/// which is up to 4.9 % too little (VGG-19's FC1: 392,015,625 instead of 411,058,176).
///
/// - Layers come in topological order, ties by the numbers in their names, and have the names of their nodes.
/// - Nodes without predecessor and described as "Input..." are left out, as in PipeDream's planner: their times are the data loader's.
/// - A layer that works in place saves no tensor of its own. No cut may separate it from the layer whose output it overwrites.
/// - `__getitem__` is a view: it saves no tensor of its own either, but a cut is allowed.
/// - An edge needs a gradient if a layer upstream of it has parameters.
/// - The result has one device class, no devices and no links.
///
/// Throws Error with the line: not this format; a field missing, duplicate, negative or not finite; a node duplicate or unknown; a cycle;
/// more than 10,000 nodes, 100,000 edges, an hour or 4 TiB; no layer.
[[nodiscard]] Profile read_layer_graph(TextInput& input);
/// Does the same for a file, gzip or not; the model gets the file's name.
[[nodiscard]] Profile read_layer_graph(const std::string& path);

}  // namespace mptune::profiler
