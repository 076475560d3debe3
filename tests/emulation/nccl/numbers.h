#pragma once

#include <cstddef>
#include <cstdint>

#include "tests/emulation/nccl/nccl_api.h"

namespace emulation {

/// Size of a number, 0 if there is no such type.
[[nodiscard]] std::size_t bytes_of(ncclDataType_t type);

/// As kernels' names have it: "f32".
[[nodiscard]] const char* name_of(ncclDataType_t type);
[[nodiscard]] const char* name_of(ncclRedOp_t operation);

[[nodiscard]] bool is_floating(ncclDataType_t type);

/// into[i] = into[i] `operation` from[i], rounded to the type each time as NCCL does. ncclSum, ncclProd, ncclMax or ncclMin.
void combine(ncclDataType_t type, ncclRedOp_t operation, void* into, const void* from, std::size_t count);

/// values[i] = values[i] * scalar, where `scalar` is a number of the type.
void multiply(ncclDataType_t type, void* values, const void* scalar, std::size_t count);

/// Writes `value` as a number of the type.
void set_number(ncclDataType_t type, void* to, double value);

/// values[i] = values[i] / members; whole numbers are rounded towards 0.
void divide(ncclDataType_t type, void* values, int members, std::size_t count);

}  // namespace emulation
