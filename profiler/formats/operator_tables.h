#pragma once

#include <map>
#include <string>
#include <vector>

#include "mptune/profiler/formats/operator_row.h"
#include "mptune/profiler/formats/text_input.h"
#include "mptune/profiler/trace/profile.h"

namespace mptune {

/// Reads what Aceso's profiler writes for one micro-batch size: a header, then a row per operator with the columns op_name,
/// forward-compute, backward-compute (microseconds), input_size, output_size, weights, activations, fwd_reserved, bwd_reserved ("MB" of
/// 2^20 bytes: GPT-1.3B's 3 x 2048 x 2048 half-precision weights are 24.000).
/// Throws Error with the line: no such header, a cell missing or too much, negative, not finite or not a number, an operator twice, more
/// than 416 operators, an hour or 4 TiB, no operator.
[[nodiscard]] std::vector<OperatorRow> read_operator_table(TextInput& input);

/// The operators of a model, from its tables by micro-batch size. Rows "enc-..." stand for one encoder layer and are repeated
/// kOperatorTableLayers times, named "0.enc-1st-layernorm" and so on; the others are there once.
/// A chain: the size of an operator's output is that of all tensors live behind it (the residual along with the normalized values), kept
/// bytes are its activations, workspace the larger of what forward and backward reserve. Weights are half precision under mixed-precision
/// Adam: another copy and two moments in single precision are 6 bytes of optimizer state per byte.
/// Times are not always the published ones: they are lowered where they break the laws of lawful_times.h, for a table holds one timing of
/// each, and some hold disturbed ones (one backward of GPT-350M's gelu at size 2 is 2.8 times dearer than at size 4).
/// One device class without devices and links. Throws Error (`where`): tables with different operators, none.
[[nodiscard]] Profile profile_of_operators(const std::map<int, std::vector<OperatorRow>>& tables, const std::string& where);

/// Files `PREFIX_mbs{samples}_tp1_algo0.csv` by samples, ascending; empty where there are none.
[[nodiscard]] std::map<int, std::string> operator_table_files(const std::string& prefix);

/// The same of all tables with this prefix ("aceso/gpt_1_3B"), by micro-batch size; the model is named like the prefix. Throws Error as
/// above, and where there is no table.
[[nodiscard]] Profile read_operator_tables(const std::string& prefix);

}  // namespace mptune
