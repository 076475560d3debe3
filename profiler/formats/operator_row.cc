#include "profiler/formats/operator_row.h"

namespace mptune::profiler {

bool is_of_encoder(const OperatorRow& row) {
  return row.name.starts_with("enc-");
}

std::vector<PlacedOperator> operators_in_order(const std::vector<OperatorRow>& rows) {
  std::vector<PlacedOperator> order;
  for (std::size_t first = 0; first < rows.size();) {
    std::size_t last = first + 1;
    while (is_of_encoder(rows[first]) && last < rows.size() && is_of_encoder(rows[last])) ++last;
    const int repeats = is_of_encoder(rows[first]) ? kOperatorTableLayers : 1;
    for (int layer = 0; layer < repeats; ++layer)
      for (std::size_t r = first; r < last; ++r)
        order.push_back({r, is_of_encoder(rows[first]) ? std::to_string(layer) + "." + rows[r].name : rows[r].name});
    first = last;
  }
  return order;
}

}  // namespace mptune::profiler
