#pragma once

/// CUPTI's records of what the machine observed. Times of work are those of the GPUs' clock.

#include <cupti.h>

#include <cstdint>

#include "tests/emulation/machine/machine.h"

namespace emulation::cupti {

[[nodiscard]] CUpti_ActivityKernel10 kernel_record(const WorkRecord& work);
/// A copy between GPUs is one of the kind PTOP here.
[[nodiscard]] CUpti_ActivityMemcpy6 copy_record(const WorkRecord& work);
[[nodiscard]] CUpti_ActivityMemcpyPtoP4 peer_copy_record(const WorkRecord& work);
[[nodiscard]] CUpti_ActivityMemset4 fill_record(const WorkRecord& work);

/// `begin`, `end`: of CUPTI's clock.
[[nodiscard]] CUpti_ActivityAPI call_record(const ApiRecord& call, std::uint64_t begin, std::uint64_t end);
[[nodiscard]] CUpti_ActivityExternalCorrelation external_record(CUpti_ExternalCorrelationKind kind, std::uint64_t id,
                                                                std::uint32_t correlation);
[[nodiscard]] CUpti_ActivitySynchronization2 wait_record(const WaitRecord& wait, std::uint64_t begin, std::uint64_t end);
[[nodiscard]] CUpti_ActivityCudaEvent2 event_record(const EventRecord& event, bool with_time);

}  // namespace emulation::cupti
