#pragma once

#include <cstdint>
#include <string>

namespace mptune::planner {

/// Table memory limit: bytes that the tables of one search may take together.
constexpr std::int64_t kTableMemoryLimit = std::int64_t{2} << 30;

/// Throws Error where the tables of `what` need more than `limit`.
void check_table_memory(double bytes, std::int64_t limit, const std::string& what, const std::string& where, const std::string& remedy);
/// Throws Error where the tables of `what` need more than kTableMemoryLimit.
void check_table_memory(double bytes, const std::string& what, const std::string& where, const std::string& remedy);

}  // namespace mptune::planner
