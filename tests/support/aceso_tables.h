#pragma once

#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "mptune/planner/partition/aceso.h"
#include "mptune/tests/support/files.h"

namespace mptune::test {

/// The numbers behind the name in a row of the published operator tables.
inline std::vector<std::string> csv_cells(const std::string& line) {
  std::vector<std::string> cells;
  std::stringstream row(line);
  for (std::string cell; std::getline(row, cell, ',');) cells.push_back(cell);
  return cells;
}

inline AcesoOperator aceso_operator(const std::string& line) {
  const std::vector<std::string> cells = csv_cells(line);
  const auto ns = [&](std::size_t i) { return std::llround(std::stod(cells.at(i)) * 1000); };
  const auto bytes = [&](std::size_t i) { return std::llround(std::stod(cells.at(i)) * (1 << 20)); };
  AcesoOperator row;
  row.name = cells.at(0);
  row.forward_ns = ns(1);
  row.backward_ns = ns(2);
  row.input_bytes = bytes(3);
  row.output_bytes = bytes(4);
  row.weights_bytes = bytes(5);
  row.kept_bytes = bytes(6);
  // Softmax works on the buffer that dropout keeps, which holds half as much again.
  if (row.name == "enc-attention-softmax") row.kept_bytes = 0;
  if (row.name == "enc-attention-dropout") row.kept_bytes = row.kept_bytes * 3 / 2;
  row.forward_reserved_bytes = bytes(7);
  row.backward_reserved_bytes = bytes(8);
  row.recomputable = row.name != "encoder-embedding" && row.name != "gpt-post-process";
  row.begins_piece = row.name == "enc-1st-layernorm";
  return row;
}

inline std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

/// GPT of 24 layers: the rows of one layer, those that begin with "enc-", stand once in the file.
inline AcesoTable aceso_table(const std::string& path, int samples, int layers = 24) {
  AcesoTable table;
  table.samples = samples;
  std::vector<AcesoOperator> layer;
  const std::vector<std::string> lines = lines_of(path);
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const AcesoOperator row = aceso_operator(lines[i]);
    if (row.name.starts_with("enc-")) {
      layer.push_back(row);
      continue;
    }
    for (int copy = 0; copy < layers && !layer.empty(); ++copy) table.operators.insert(table.operators.end(), layer.begin(), layer.end());
    layer.clear();
    table.operators.push_back(row);
  }
  return table;
}

/// "gpt_1_3B" or "gpt_350M" on `devices` devices with 28,000 MB as published; no tables where the data is absent.
inline AcesoProblem aceso_problem(const std::string& model, int devices) {
  AcesoProblem problem;
  for (const int samples : {1, 2, 4, 8}) {
    const std::string path = shared_data("aceso/" + model + "_mbs" + std::to_string(samples) + "_tp1_algo0.csv");
    if (!path.empty()) problem.tables.push_back(aceso_table(path, samples));
  }
  const std::string links = shared_data("aceso/p2p_intra_node.csv");
  if (!links.empty()) {
    for (const std::string& cell : csv_cells(lines_of(links).at(1))) problem.gigabytes_per_second.push_back(std::stod(cell));
  }
  problem.devices = devices;
  problem.batch = 1024;
  problem.memory_bytes = std::int64_t{28000} << 20;
  return problem;
}

}  // namespace mptune::test
