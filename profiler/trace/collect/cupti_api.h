#pragma once

#include <cupti.h>

#include <string>

namespace mptune::profiler {

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

/// Functions of libcupti, loaded at run time: a program starts without the library, and shares LibTorch's copy. Tests use fakes.
struct CuptiApi {
#define MPTUNE_CUPTI_MEMBER(name) decltype(&::name) name = nullptr;  // NOLINT(bugprone-macro-parentheses)
  MPTUNE_CUPTI_FUNCTIONS(MPTUNE_CUPTI_MEMBER)
#undef MPTUNE_CUPTI_MEMBER
};

/// Returns libcupti: the copy that the process has loaded, else the one that the loader finds, else the one of the build. Loaded once per
/// process. Throws Error (environment) if it is not found or its version has other records. Thread-safe.
[[nodiscard]] const CuptiApi& cupti_api();

/// Returns the same for recording: also throws Error (environment) if there is no CUDA driver.
[[nodiscard]] const CuptiApi& cupti_api_with_driver();

/// Returns the address of another symbol of the library, null if it does not exist. Throws like cupti_api().
[[nodiscard]] void* cupti_symbol(const char* name);

/// Returns the name of a result code: "CUPTI_ERROR_UNKNOWN".
[[nodiscard]] std::string cupti_text(const CuptiApi& cupti, CUptiResult result);

}  // namespace mptune::profiler
