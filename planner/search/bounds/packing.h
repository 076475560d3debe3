#pragma once

#include <vector>

namespace mptune::planner {

/// A packing problem: find the largest sum of some amounts, none below 0, where each row of weighted amounts stays within its room.
struct Packing {
  std::vector<std::vector<double>> rows;  ///< a weight per amount, none below 0; every amount has one above 0 in some row
  std::vector<double> room;               ///< room of each row, above 0
};

/// Returns a price of each row, none below 0, with which every amount costs 1 or more. So all amounts together are at most the price of the
/// room. The simplex method (Dantzig, 1951) finds them, as near to the least as a limited number of steps leads.
[[nodiscard]] std::vector<double> packing_prices(const Packing& problem);

}  // namespace mptune::planner
