#pragma once

#include <vector>

namespace mptune::planner {

/// A packing problem: the most that some amounts add up to, none below 0, where each row of weighted amounts stays within its room.
struct Packing {
  std::vector<std::vector<double>> rows;  ///< a weight per amount, none below 0; every amount has one above 0 in some row
  std::vector<double> room;               ///< of each row, above 0
};

/// A price of each row, none below 0, such that every amount costs 1 or more: so all amounts together are at most the price of the room. By
/// the simplex method (Dantzig, 1951), as near to the least as a limited number of steps leads.
[[nodiscard]] std::vector<double> packing_prices(const Packing& problem);

}  // namespace mptune::planner
