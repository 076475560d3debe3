#include "profiler/trace/formats/operator_tables.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <set>

#include "profiler/base/error.h"
#include "profiler/base/text.h"
#include "profiler/trace/formats/text_lines.h"
#include "profiler/trace/statistics/lawful_times.h"
#include "profiler/trace/values/profile_limits.h"

namespace mptune::profiler {
namespace {

constexpr double kMebibyte = 1024 * 1024;
constexpr std::int64_t kMostSamples = 1 << 20;
constexpr double kMixedPrecisionAdam = 6;  // bytes per byte of weights
constexpr double kSinglePrecisionAdam = 2;
constexpr const char* kTableRemedy = "give the tables of Aceso's profiler: PREFIX of PREFIX_mbs1_tp1_algo0.csv and so on";

struct OperatorColumn {
  const char* name;
  double OperatorRow::*value;
  double unit;
};

constexpr std::array<OperatorColumn, 8> kOperatorColumns{{{"forward-compute", &OperatorRow::forward_s, 1e-6},
                                                          {"backward-compute", &OperatorRow::backward_s, 1e-6},
                                                          {"input_size", &OperatorRow::input_bytes, kMebibyte},
                                                          {"output_size", &OperatorRow::output_bytes, kMebibyte},
                                                          {"weights", &OperatorRow::weights_bytes, kMebibyte},
                                                          {"activations", &OperatorRow::activations_bytes, kMebibyte},
                                                          {"fwd_reserved", &OperatorRow::forward_reserved_bytes, kMebibyte},
                                                          {"bwd_reserved", &OperatorRow::backward_reserved_bytes, kMebibyte}}};

void require_header(TextLines& lines) {
  if (!lines.next()) lines.refuse("the operator table is empty");
  const std::vector<std::string> names = split(lines.line(), ',');
  bool right = names.size() == kOperatorColumns.size() + 1 && trimmed(names[0]) == "op_name";
  for (std::size_t c = 0; right && c < kOperatorColumns.size(); ++c) right = trimmed(names[c + 1]) == kOperatorColumns[c].name;
  if (!right)
    lines.refuse(
        "the columns are not op_name, forward-compute, backward-compute, input_size, output_size, weights, activations, fwd_reserved, "
        "bwd_reserved");
}

OperatorRow operator_row(const TextLines& lines) {
  const std::vector<std::string> cells = split(lines.line(), ',');
  if (cells.size() != kOperatorColumns.size() + 1) lines.refuse("the row has " + std::to_string(cells.size()) + " cells instead of 9");
  OperatorRow row;
  row.name = trimmed(cells[0]);
  if (row.name.empty()) lines.refuse("the operator has no name");
  for (std::size_t c = 0; c < kOperatorColumns.size(); ++c) {
    const OperatorColumn& column = kOperatorColumns[c];
    const double most = (c < 2 ? kMostProfileSeconds : kMostProfileBytes) / column.unit;
    row.*column.value = lines.quantity(cells[c + 1], column.name, most) * column.unit;
  }
  return row;
}

LayerCost operator_cost(const OperatorRow& row, int samples) {
  LayerCost cost;
  cost.samples = samples;
  cost.forward = exactly(row.forward_s);
  cost.backward = exactly(row.backward_s);
  cost.output_bytes = std::llround(row.output_bytes);
  cost.saved_activation_bytes = std::llround(row.activations_bytes);
  cost.workspace_bytes = std::llround(std::max(row.forward_reserved_bytes, row.backward_reserved_bytes));
  return cost;
}

// Corrects disturbed timings (lawful_times.h), since a table holds one timing per operator.
void keep_laws(LayerCosts& curve) {
  std::vector<int> sizes;
  std::vector<double> forward;
  std::vector<double> backward;
  for (const LayerCost& cost : curve.by_samples) {
    sizes.push_back(cost.samples);
    forward.push_back(median(cost.forward));
    backward.push_back(median(cost.backward));
  }
  forward = lawful_times(sizes, forward);
  backward = lawful_times(sizes, backward);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    curve.by_samples[i].forward = exactly(forward[i]);
    curve.by_samples[i].backward = exactly(backward[i]);
  }
}

// Returns the edge, whose size is a line through the smallest and the largest micro-batch.
LayerEdge operator_edge(int from, const LayerCosts& costs) {
  const LayerCost& small = costs.by_samples.front();
  const LayerCost& large = costs.by_samples.back();
  LayerEdge edge{from, from + 1, 0, 0, true};
  const std::int64_t more = large.samples - small.samples;
  edge.bytes_per_sample = more == 0 ? small.output_bytes / small.samples : (large.output_bytes - small.output_bytes) / more;
  edge.bytes_per_sample = std::clamp<std::int64_t>(edge.bytes_per_sample, 0, small.output_bytes / small.samples);
  edge.fixed_bytes = small.output_bytes - edge.bytes_per_sample * small.samples;
  return edge;
}

void require_same_operators(const std::map<int, std::vector<OperatorRow>>& tables, const std::string& where) {
  const std::vector<OperatorRow>& first = tables.begin()->second;
  for (const auto& [samples, rows] : tables) {
    const auto same = [](const OperatorRow& a, const OperatorRow& b) { return a.name == b.name; };
    if (!std::equal(rows.begin(), rows.end(), first.begin(), first.end(), same))
      throw Error("the tables of " + std::to_string(tables.begin()->first) + " and " + std::to_string(samples) +
                      " samples list different operators",
                  where, kTableRemedy);
  }
}

}  // namespace

std::vector<OperatorRow> read_operator_table(TextInput& input, const OperatorModel& model) {
  TextLines lines(input, kTableRemedy);
  require_header(lines);
  std::vector<OperatorRow> rows;
  std::set<std::string> names;
  std::size_t operators = 0;
  double seconds = 0;
  double bytes = 0;
  while (lines.next()) {
    rows.push_back(operator_row(lines));
    const OperatorRow& row = rows.back();
    if (!names.insert(row.name).second) lines.refuse("duplicate operator");
    const int repeats = is_of_layer(row) ? model.layers : 1;
    operators += static_cast<std::size_t>(repeats);
    seconds += repeats * (row.forward_s + row.backward_s);
    bytes +=
        repeats * (row.output_bytes + row.weights_bytes + row.activations_bytes + row.forward_reserved_bytes + row.backward_reserved_bytes);
    if (operators > kMostProfileLayers)
      lines.refuse("with " + std::to_string(model.layers) + " layers the model has more than " + std::to_string(kMostProfileLayers) +
                   " operators");
    if (seconds > kMostProfileSeconds) lines.refuse("the operators take more than an hour");
    if (bytes > kMostProfileBytes) lines.refuse("the operators have more than 4 TiB");
  }
  if (rows.empty()) lines.refuse("the table has no operators");
  return rows;
}

Profile profile_of_operators(const std::map<int, std::vector<OperatorRow>>& tables, const std::string& where, const OperatorModel& model) {
  if (tables.empty()) throw Error("no operator tables found", where, kTableRemedy);
  require_same_operators(tables, where);
  Profile profile;
  profile.optimizer_state_factor = model.bytes_per_weight == 2 ? kMixedPrecisionAdam : kSinglePrecisionAdam;
  DeviceClass& costs = profile.classes.emplace_back();
  costs.name = "device";
  const std::vector<OperatorRow>& rows = tables.begin()->second;
  for (const auto& [row, name] : operators_in_order(rows, model.layers)) {
    ProfileLayer& layer = profile.layers.emplace_back();
    layer.name = name;
    layer.kind = rows[row].name;
    layer.modules = {name};
    layer.parameters_bytes = std::llround(rows[row].weights_bytes);
    layer.parameters = layer.parameters_bytes / model.bytes_per_weight;
    LayerCosts& curve = costs.layers.emplace_back();
    for (const auto& [samples, table] : tables) curve.by_samples.push_back(operator_cost(table[row], samples));
    keep_laws(curve);
    if (profile.layers.size() > 1)
      profile.edges.push_back(operator_edge(static_cast<int>(profile.layers.size()) - 2, costs.layers[costs.layers.size() - 2]));
  }
  return profile;
}

std::map<int, std::string> operator_table_files(const std::string& prefix) {
  const std::filesystem::path path(prefix);
  const std::string start = path.filename().string() + "_mbs";
  const std::string end = "_tp1_algo0.csv";
  std::map<int, std::string> files;
  std::error_code fault;
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  for (std::filesystem::directory_iterator entry(folder, fault), none; !fault && entry != none; entry.increment(fault)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(start) || !name.ends_with(end) || name.size() <= start.size() + end.size()) continue;
    const auto samples = integer(std::string_view(name).substr(start.size(), name.size() - start.size() - end.size()));
    if (samples && *samples >= 1 && *samples <= kMostSamples) files[static_cast<int>(*samples)] = (path.parent_path() / name).string();
  }
  return files;
}

Profile read_operator_tables(const std::string& prefix, const OperatorModel& model) {
  std::map<int, std::vector<OperatorRow>> tables;
  for (const auto& [samples, path] : operator_table_files(prefix)) {
    TextInput input = open_text(path);
    tables[samples] = read_operator_table(input, model);
  }
  Profile profile = profile_of_operators(tables, prefix, model);
  profile.model = std::filesystem::path(prefix).filename().string();
  return profile;
}

}  // namespace mptune::profiler
