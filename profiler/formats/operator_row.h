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

/// Encoder layers of the published GPT-350M and GPT-1.3B; the tables do not state the number.
inline constexpr int kOperatorTableLayers = 24;

/// True for rows "enc-...", which describe one encoder layer.
[[nodiscard]] bool is_of_encoder(const OperatorRow& row);

/// One operator of a model.
struct PlacedOperator {
  std::size_t row = 0;
  std::string name;  ///< of encoder rows with the layer: "3.enc-MLP-gelu"
};

/// The model's operators. Adjacent rows of the encoder are repeated together, kOperatorTableLayers times; other rows occur once.
[[nodiscard]] std::vector<PlacedOperator> operators_in_order(const std::vector<OperatorRow>& rows);

}  // namespace mptune::profiler
