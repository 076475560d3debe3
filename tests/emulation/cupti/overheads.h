#pragma once

/// Records of CUPTI's and the driver's own work (CUPTI_ACTIVITY_KIND_OVERHEAD), which there are with EMULATED_OVERHEAD_RECORDS=N: of each
/// N-th call of the API, in turn of all kinds, and of each request and flush of buffers.

#include <cupti.h>

#include <cstdint>
#include <optional>

namespace emulation::cupti {

using Overhead = CUpti_ActivityOverhead3;

/// Of this thread. Nothing where the kind is not enabled or the setting is 0.
[[nodiscard]] std::optional<Overhead> overhead_of_request(std::uint64_t begin, std::uint64_t end);
[[nodiscard]] std::optional<Overhead> overhead_of_flush(std::uint64_t begin, std::uint64_t end);

/// The same for a call of the API; nothing for all but each N-th. The record may own memory that its reader frees.
[[nodiscard]] std::optional<Overhead> overhead_of_call(std::uint64_t begin, std::uint64_t end, std::uint32_t correlation);

}  // namespace emulation::cupti
