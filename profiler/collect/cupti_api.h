#pragma once

#include <cupti.h>

#include <string>

namespace mptune {

// Every function of libcupti that mptune calls.
#define MPTUNE_CUPTI_FUNCTIONS(X)           \
  X(cuptiGetVersion)                        \
  X(cuptiGetResultString)                   \
  X(cuptiGetCallbackName)                   \
  X(cuptiSetThreadIdType)                   \
  X(cuptiSubscribe_v2)                      \
  X(cuptiUnsubscribe)                       \
  X(cuptiGetTimestamp)                      \
  X(cuptiActivityRegisterCallbacks)         \
  X(cuptiActivitySetAttribute)              \
  X(cuptiActivityEnable)                    \
  X(cuptiActivityEnableAndDump)             \
  X(cuptiActivityDisable)                   \
  X(cuptiActivityEnableRuntimeApi)          \
  X(cuptiActivityEnableDriverApi)           \
  X(cuptiActivityEnableAllSyncRecords)      \
  X(cuptiActivityFlushAll)                  \
  X(cuptiActivityGetNumDroppedRecords)      \
  X(cuptiActivityGetNextRecord)             \
  X(cuptiActivityPushExternalCorrelationId) \
  X(cuptiActivityPopExternalCorrelationId)

/// libcupti as found at run time, member by member under the names of its functions: a program starts without the library and shares the
/// copy that LibTorch loaded. Tests put their own functions in.
struct CuptiApi {
#define MPTUNE_CUPTI_MEMBER(name) decltype(&::name) name = nullptr;
  MPTUNE_CUPTI_FUNCTIONS(MPTUNE_CUPTI_MEMBER)
#undef MPTUNE_CUPTI_MEMBER
};

/// The library: the copy the process has loaded already, else the one the loader finds, else the one of the build. Loaded once per process.
/// Throws Error (environment): none, or one whose records differ from those known here. Any thread.
[[nodiscard]] const CuptiApi& cupti_api();

/// The same for recording: also throws Error (environment) where there is no CUDA driver.
[[nodiscard]] const CuptiApi& cupti_api_with_driver();

/// Address of another symbol of the loaded library, null where it has none. Throws as cupti_api() does.
[[nodiscard]] void* cupti_symbol(const char* name);

/// What the library calls `result`: "CUPTI_ERROR_UNKNOWN".
[[nodiscard]] std::string cupti_text(const CuptiApi& cupti, CUptiResult result);

}  // namespace mptune
