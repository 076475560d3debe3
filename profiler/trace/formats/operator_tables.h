#pragma once

#include <map>
#include <string>
#include <vector>

#include "profiler/trace/formats/operator_row.h"
#include "profiler/trace/formats/text_input.h"
#include "profiler/trace/values/profile.h"

namespace mptune::profiler {

/// Reads a table that Aceso's profiler wrote for one micro-batch size: a header, then a row per operator.
/// Columns: op_name; forward-compute and backward-compute in microseconds; input_size, output_size, weights, activations, fwd_reserved and
/// bwd_reserved in "MB" of 2^20 bytes (GPT-1.3B's 3 x 2048 x 2048 half-precision weights are 24.000).
/// Throws Error with the line: another header; a cell missing, surplus, negative, not finite or not a number; a duplicate operator; no
/// operators; a model of more than 10,000 operators, an hour or 4 TiB.
[[nodiscard]] std::vector<OperatorRow> read_operator_table(TextInput& input, const OperatorModel& model = {});

/// Makes a profile from a model's operator tables, given by micro-batch size. Every operator is a layer; the layers form a chain.
/// - Rows "enc-..." describe one encoder layer, rows "dec-..." one decoder layer. They are repeated `model.layers` times, named
///   "0.enc-1st-layernorm" and so on.
/// - Output bytes are those of all tensors that are live after the operator (the residual and the normalized values).
/// - Saved bytes are the operator's activations; workspace is the larger of what forward and backward reserve.
/// - With weights in half precision, Adam keeps a copy and two moments in single precision: 6 bytes per byte of weights. With single
///   precision it keeps two moments: 2 bytes.
/// - Times are corrected by lawful_times.h: tables hold single timings, and some are disturbed. One backward of GPT-350M's gelu takes
///   2.8 times as long for 2 samples as for 4.
/// - There is one device class, without devices and links.
/// Throws Error (`where`): tables with different operators, no table.
[[nodiscard]] Profile profile_of_operators(const std::map<int, std::vector<OperatorRow>>& tables, const std::string& where,
                                           const OperatorModel& model = {});

/// Returns the files `PREFIX_mbs{samples}_tp1_algo0.csv` by samples, ascending; empty if there are none.
[[nodiscard]] std::map<int, std::string> operator_table_files(const std::string& prefix);

/// Makes a profile of all tables with this prefix ("aceso/gpt_1_3B"), as profile_of_operators() does. The model gets the prefix's file
/// name. Throws Error as read_operator_table() and profile_of_operators() do.
[[nodiscard]] Profile read_operator_tables(const std::string& prefix, const OperatorModel& model);

}  // namespace mptune::profiler
