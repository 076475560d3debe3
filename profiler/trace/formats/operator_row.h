#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace mptune::profiler {

/// One row of an operator table (profiler/trace/formats/operator_tables.h), in the units of this project.
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

/// What operator tables do not say of their model; for published tables, see planner/published/operator_models.h.
struct OperatorModel {
  static constexpr int kMostLayers = 1000;
  int layers = 24;           ///< number of layers that the rows of one encoder layer, or one decoder layer, stand for; at most kMostLayers
  int bytes_per_weight = 2;  ///< 2: half precision, with Adam in mixed precision; 4: single precision, with Adam in the same
  bool operator==(const OperatorModel&) const = default;
};

/// True for rows "enc-..." and "dec-...", which describe one layer, except for the norms after the last one ("enc-final-layernorm").
[[nodiscard]] bool is_of_layer(const OperatorRow& row);

/// One operator of a model.
struct PlacedOperator {
  std::size_t row = 0;
  std::string name;  ///< in a layer's rows with the layer's number: "3.enc-MLP-gelu"
};

/// Returns the model's operators. Adjacent rows of a layer are repeated together, `layers` times; other rows occur once.
[[nodiscard]] std::vector<PlacedOperator> operators_in_order(const std::vector<OperatorRow>& rows, int layers);

}  // namespace mptune::profiler
