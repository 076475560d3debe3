#include "profiler/trace/formats/operator_row.h"

namespace mptune::profiler {

bool is_of_layer(const OperatorRow& row) {
  return (row.name.starts_with("enc-") || row.name.starts_with("dec-")) && !row.name.substr(4).starts_with("final-");
}

std::vector<PlacedOperator> operators_in_order(const std::vector<OperatorRow>& rows, int layers) {
  std::vector<PlacedOperator> order;
  for (std::size_t first = 0; first < rows.size();) {
    const bool repeated = is_of_layer(rows[first]);
    std::size_t last = first + 1;
    while (repeated && last < rows.size() && is_of_layer(rows[last])) ++last;
    for (int layer = 0; layer < (repeated ? layers : 1); ++layer)
      for (std::size_t r = first; r < last; ++r) order.push_back({r, repeated ? std::to_string(layer) + "." + rows[r].name : rows[r].name});
    first = last;
  }
  return order;
}

}  // namespace mptune::profiler
