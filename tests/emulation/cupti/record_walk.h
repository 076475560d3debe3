#pragma once

/// Records in a buffer, which have the sizes of the installed headers' structs.

#include <cupti.h>

#include <cstddef>
#include <cstdint>

namespace emulation::cupti {

/// Bytes of a record of this kind, 0: CUPTI has no such records.
[[nodiscard]] std::size_t record_size(std::uint32_t kind);

/// As cuptiActivityGetNextRecord(): from null to the first record, from each to the next. MAX_LIMIT_REACHED where no whole record follows,
/// INVALID_KIND at a kind without records.
[[nodiscard]] CUptiResult next_record(std::uint8_t* buffer, std::size_t valid, CUpti_Activity*& record);

}  // namespace emulation::cupti
