#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace mptune::profiler {

/// The statements of schema.sql.
extern const char* const kSchemaSql;

/// Version of the MPTUNE_ tables. Readers refuse a newer major version. A newer minor version only adds tables or columns.
inline constexpr int kSchemaMajor = 1;
inline constexpr int kSchemaMinor = 5;

/// Ids of the Nsight layout, `<hardware:8><VM:8><process:24><thread:24>`. Always VM 1, and process 1 for rank 0, 2 for rank 1, so that
/// files do not identify the machine.
inline constexpr std::int64_t kGlobalVid = std::int64_t{1} << 48;
[[nodiscard]] constexpr std::int64_t process_of_rank(int rank) {
  return 1 + rank;
}
[[nodiscard]] constexpr std::int64_t global_pid(std::int64_t process) {
  return kGlobalVid | (process << 24);
}

/// Values of the Nsight layout's enums.
inline constexpr int kCopyUnknown = 0;
inline constexpr int kCopyHostToDevice = 1;
inline constexpr int kCopyDeviceToHost = 2;
inline constexpr int kCopyWithinDevice = 8;
inline constexpr int kCopyPeer = 10;
inline constexpr int kCopyUnifiedHostToDevice = 11;
inline constexpr int kCopyUnifiedDeviceToHost = 12;
inline constexpr int kCopyUnifiedWithin = 13;  ///< from device to device
inline constexpr int kMemoryPageable = 0;
inline constexpr int kMemoryDevice = 2;
inline constexpr int kStreamWait = 2;
inline constexpr int kNvtxPushPop = 59;
inline constexpr int kRuntimeCall = 0;
inline constexpr int kDriverCall = 1;

/// Labels of ENUM_CUPTI_OVERHEAD_TYPE by id.
inline constexpr std::array<std::string_view, 9> kOverheadLabels{"Undefined",
                                                                 "Unknown",
                                                                 "Driver JIT compiler (CUDA)",
                                                                 "Buffer flush (Profiler)",
                                                                 "Instrumentation (Profiler)",
                                                                 "Resource creation/destruction (Profiler)",
                                                                 "Runtime module loading (CUDA)",
                                                                 "Lazy function loading (CUDA)",
                                                                 "Command buffer full (CUDA)"};
inline constexpr std::int64_t kOverheadUnknown = 1;

}  // namespace mptune::profiler
