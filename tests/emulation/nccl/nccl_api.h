#pragma once

/// NCCL's types as its version 2.28 has them. Declared here because its header may be absent.

#include <climits>
#include <cstddef>

#define NCCL_FUNCTION extern "C" __attribute__((visibility("default")))

inline constexpr int kNcclVersion = 22809;

enum ncclResult_t {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
};

enum ncclDataType_t {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
  ncclNumTypes = 12,
};

/// Values from ncclNumOps on are a communicator's own, made by ncclRedOpCreatePreMulSum.
enum ncclRedOp_t : int { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3, ncclAvg = 4, ncclNumOps = 5 };

enum ncclScalarResidence_t { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 };

struct ncclUniqueId {
  char internal[128];
};

inline constexpr unsigned kConfigMagic = 0xcafebeef;
inline constexpr int kUndefined = INT_MIN;
inline constexpr int kNoColor = -1;
inline constexpr int kShrinkAborts = 1;

/// The begin of the struct; what follows changes no result here.
struct ncclConfig_t {
  std::size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
};

struct ncclComm;
using ncclComm_t = ncclComm*;

/// A cudaStream_t.
using NcclStream = void*;
