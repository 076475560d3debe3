#include "planner/partition/table_memory.h"

#include <cmath>

#include "profiler/base/error.h"

namespace mptune::planner {

void check_table_memory(double bytes, const std::string& what, const std::string& where, const std::string& remedy) {
  if (bytes <= static_cast<double>(kTableMemoryLimit)) return;
  const auto gibibytes = static_cast<std::int64_t>(std::ceil(bytes / (1 << 30)));
  std::string text = what;
  text += " take tables of about " + std::to_string(gibibytes) + " GiB, more than the " + std::to_string(kTableMemoryLimit >> 30) +
          " GiB that a search may fill";
  throw Error(text, where, remedy);
}

}  // namespace mptune::planner
