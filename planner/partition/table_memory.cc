#include "planner/partition/table_memory.h"

#include <algorithm>
#include <cmath>

#include "planner/plan/plan_error.h"
#include "profiler/base/units.h"

namespace mptune::planner {

void check_table_memory(double bytes, std::int64_t limit, const std::string& what, const std::string& where, const std::string& remedy) {
  if (bytes <= static_cast<double>(limit)) return;
  const double shown = std::min(bytes, 0x1p62);
  throw PlanError(what + " take tables of about " + format_bytes(std::llround(shown)) + ", more than the " + format_bytes(limit) +
                      " that a search may fill",
                  where, remedy);
}

void check_table_memory(double bytes, const std::string& what, const std::string& where, const std::string& remedy) {
  check_table_memory(bytes, kTableMemoryLimit, what, where, remedy);
}

}  // namespace mptune::planner
