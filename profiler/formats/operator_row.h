#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace mptune::profiler {

/// One row of an operator table (profiler/formats/operator_tables.h), in the units of this project.
struct OperatorRow {
  std::string name;
  double forward_s = 0;
  double backward_s = 0;
  double input_bytes = 0;
  double output_bytes = 0;
  double weights_bytes = 0;
  double activations_bytes = 0;
  double forward_reserved_bytes = 0;
  double backward_reserved_bytes = 0;
};

/// What operator tables do not say of their model; of published ones see planner/published/operator_models.h.
struct OperatorModel {
  static constexpr int kMostLayers = 1000;
  int layers = 24;           ///< that the rows of one encoder layer stand for, and those of one decoder layer; at most kMostLayers
  int bytes_per_weight = 2;  ///< 2: half precision, with Adam in mixed precision; 4: single precision, with Adam in the same
  bool operator==(const OperatorModel&) const = default;
};

/// True for rows "enc-..." and "dec-...", which describe one layer, but for the norms behind the last one ("enc-final-layernorm").
[[nodiscard]] bool is_of_layer(const OperatorRow& row);

/// One operator of a model.
struct PlacedOperator {
  std::size_t row = 0;
  std::string name;  ///< of a layer's rows with the layer: "3.enc-MLP-gelu"
};

/// The model's operators. Adjacent rows of a layer are repeated together, `layers` times; other rows occur once.
[[nodiscard]] std::vector<PlacedOperator> operators_in_order(const std::vector<OperatorRow>& rows, int layers);

}  // namespace mptune::profiler
