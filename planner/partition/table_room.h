#pragma once

#include <cstdint>
#include <string>

namespace mptune {

/// Bytes that the tables of one search may take together.
constexpr std::int64_t kMostTableBytes = std::int64_t{2} << 30;

/// Throws Error where the tables of `what` need more than kMostTableBytes.
void check_table_room(double bytes, const std::string& what, const std::string& where, const std::string& remedy);

}  // namespace mptune
