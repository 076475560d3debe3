#include "planner/search/bounds/packing.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace mptune::planner {
namespace {

constexpr double kZero = 1e-11;
constexpr int kStepsPerRow = 8;

// The columns are the amounts, a slack of each row, and the room. The last row has what a column would add, below 0 where it would add
// something.
class Tableau {
 public:
  explicit Tableau(const Packing& problem) : amounts_(problem.rows.front().size()), rows_(problem.rows.size()) {
    const std::size_t width = amounts_ + rows_ + 1;
    for (std::size_t r = 0; r < rows_; ++r) {
      std::vector<double>& line = lines_.emplace_back(problem.rows[r]);
      line.resize(width, 0);
      line[amounts_ + r] = 1;
      line.back() = problem.room[r];
    }
    std::vector<double>& gain = lines_.emplace_back(width, 0.0);
    std::fill_n(gain.begin(), amounts_, -1.0);
  }

  // Returns false where nothing more can be gained.
  bool step() {
    const std::vector<double>& gain = lines_.back();
    const auto column = static_cast<std::size_t>(std::min_element(gain.begin(), gain.end() - 1) - gain.begin());
    if (gain[column] > -kZero) return false;
    std::size_t row = rows_;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t r = 0; r < rows_; ++r) {
      if (lines_[r][column] <= kZero) continue;
      const double ratio = lines_[r].back() / lines_[r][column];
      if (ratio < least) {
        least = ratio;
        row = r;
      }
    }
    if (row == rows_) return false;
    enter(row, column);
    return true;
  }

  [[nodiscard]] std::vector<double> prices() const {
    std::vector<double> found;
    for (std::size_t r = 0; r < rows_; ++r) found.push_back(std::max(0.0, lines_.back()[amounts_ + r]));
    return found;
  }

 private:
  void enter(std::size_t row, std::size_t column) {
    std::vector<double>& pivot = lines_[row];
    const double by = 1 / pivot[column];
    for (double& value : pivot) value *= by;
    for (std::size_t r = 0; r < lines_.size(); ++r) {
      const double times = lines_[r][column];
      if (r == row || times == 0) continue;
      for (std::size_t c = 0; c < pivot.size(); ++c) lines_[r][c] -= times * pivot[c];
    }
  }

  std::size_t amounts_;
  std::size_t rows_;
  std::vector<std::vector<double>> lines_;
};

// Prices below what every amount has to cost are raised together.
void raise_prices(const Packing& problem, std::vector<double>& prices) {
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t x = 0; x < problem.rows.front().size(); ++x) {
    double cost = 0;
    for (std::size_t r = 0; r < prices.size(); ++r) cost += prices[r] * problem.rows[r][x];
    least = std::min(least, cost);
  }
  if (least <= 0) prices.assign(prices.size(), 1.0);
  for (double& price : prices) price /= least > 0 ? least : 1;
}

}  // namespace

std::vector<double> packing_prices(const Packing& problem) {
  Tableau tableau(problem);
  const std::size_t most = kStepsPerRow * problem.rows.size();
  for (std::size_t steps = 0; steps < most && tableau.step();) ++steps;
  std::vector<double> prices = tableau.prices();
  raise_prices(problem, prices);
  return prices;
}

}  // namespace mptune::planner
