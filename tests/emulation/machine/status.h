#pragma once

/// Error codes that runtime and driver share, with their names.

#include "tests/emulation/machine/machine.h"

namespace emulation {

inline constexpr Status kSuccess = 0;
inline constexpr Status kInvalidValue = 1;
inline constexpr Status kOutOfMemory = 2;
inline constexpr Status kNotInitialized = 3;
inline constexpr Status kInvalidMemcpyDirection = 21;
inline constexpr Status kInvalidDeviceFunction = 98;
inline constexpr Status kNoDevice = 100;
inline constexpr Status kInvalidDevice = 101;
inline constexpr Status kInvalidImage = 200;
inline constexpr Status kInvalidContext = 201;
inline constexpr Status kPeerAccessUnsupported = 217;
inline constexpr Status kInvalidHandle = 400;
inline constexpr Status kSymbolNotFound = 500;
inline constexpr Status kNotReady = 600;
inline constexpr Status kIllegalAddress = 700;
inline constexpr Status kPeerAccessAlreadyEnabled = 704;
inline constexpr Status kPeerAccessNotEnabled = 705;
inline constexpr Status kAssert = 710;
inline constexpr Status kHostMemoryAlreadyRegistered = 712;
inline constexpr Status kHostMemoryNotRegistered = 713;
inline constexpr Status kLaunchFailure = 719;
inline constexpr Status kNotSupported = 801;
inline constexpr Status kInvalidResourceType = 914;
inline constexpr Status kUnknown = 999;

struct StatusName {
  Status status;
  const char* runtime;
  const char* driver;
  const char* text;
};

/// Of kUnknown where the code is unknown.
[[nodiscard]] EMULATION_EXPORT const StatusName& name_of(Status status);

}  // namespace emulation
