#pragma once

#include <vector>

#include "planner/advise/advise.h"

namespace mptune::planner {

/// Collects advice that is worth something.
class Worth {
 public:
  /// Keeps the advice where it saves at least 0.5 % of `step_s`.
  void add(Advice advice, double step_s);
  /// Returns the advice, largest first; advice of equal worth stays in the order added.
  [[nodiscard]] std::vector<Advice> take() &&;

 private:
  std::vector<Advice> list_;
};

}  // namespace mptune::planner
