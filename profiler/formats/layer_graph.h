#pragma once

#include <string>

#include "mptune/profiler/formats/text_input.h"
#include "mptune/profiler/trace/profile.h"

namespace mptune {

/// Reads a layer graph as PipeDream's profiler writes it and DAPPLE's planner takes it (`*.graph.txt`), the whole graph with its skips:
///
///     node4 -- Conv2d(3, 64) -- forward_compute_time=1.5, backward_compute_time=3, activation_size=4096.0, parameter_size=512
///         node4 -- node5
///
/// Times are milliseconds, sizes bytes; `activation_size=[a; b; c]` is a layer of several tensors, which are live together. All of the
/// files have one batch size only and do not name it: `samples` is 1 in the result and means the micro-batch that was profiled. DAPPLE's
/// sizes were typed by hand: its VGG-19 counts MiB as if they were 10^6 bytes (FC1's 411,058,176 bytes are 392,015,625), XLNet's layers
/// likewise while its embedding is decimal, BERT and GNMT are bytes. Nothing in a file tells, so all are read as bytes: up to 4.9 % too
/// little for some.
///
/// Layers come in a topological order, ties by the numbers in their names, and are named like their nodes. Left out are nodes without
/// predecessor described as "Input...": their times are those of the data loader, which runs on no device, and so PipeDream's planner does.
/// A layer that works in place keeps no tensor of its own and may not be cut off from the layer whose output it overwrites; `__getitem__`
/// is a view likewise, but may be cut. An edge needs a gradient where a layer upstream of it has parameters.
/// The result has one device class without devices and links: the file has none.
/// Throws Error with the line: not this format, a field missing, twice, negative or not finite, a node twice or unknown, a cycle, more than
/// 10,000 nodes, 100,000 edges, an hour or 4 TiB, no layer at all.
[[nodiscard]] Profile read_layer_graph(TextInput& input);
/// The same of a file, gzip or not; the model is named like the file.
[[nodiscard]] Profile read_layer_graph(const std::string& path);

}  // namespace mptune
