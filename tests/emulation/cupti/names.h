#pragma once

/// Names, which a script takes from the installed headers when this library is built.

#include <cupti.h>

#include <cstdint>

namespace emulation::cupti {

/// As cuptiGetCallbackName() gives it: of the runtime's functions with the version, such as "cudaLaunchKernel_v7000". Null: none.
[[nodiscard]] const char* callback_name(CUpti_CallbackDomain domain, std::uint32_t id);

/// The function's own name. Empty: none.
[[nodiscard]] const char* function_name(CUpti_CallbackDomain domain, std::uint32_t id);

/// "CUPTI_ERROR_UNKNOWN". Null: there is no such result.
[[nodiscard]] const char* result_name(int result);

}  // namespace emulation::cupti
