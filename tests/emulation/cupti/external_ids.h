#pragma once

/// External correlation numbers, which a thread pushes and pops for itself, one stack for each kind.

#include <cupti.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace emulation::cupti {

[[nodiscard]] bool is_external_kind(CUpti_ExternalCorrelationKind kind);

/// Requires: is_external_kind(kind).
void push_external_id(CUpti_ExternalCorrelationKind kind, std::uint64_t id);
/// Nothing if the stack is empty.
std::optional<std::uint64_t> pop_external_id(CUpti_ExternalCorrelationKind kind);

/// The last one of each kind on this thread.
[[nodiscard]] std::vector<std::pair<CUpti_ExternalCorrelationKind, std::uint64_t>> external_ids();

}  // namespace emulation::cupti
