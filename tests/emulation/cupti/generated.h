#pragma once

/// What generate.py writes, and what it calls. Without CUPTI's headers, as it defines their functions without arguments.

namespace emulation::cupti {

/// Null: there is none.
[[nodiscard]] const char* runtime_callback_name(unsigned id);
[[nodiscard]] const char* driver_callback_name(unsigned id);
[[nodiscard]] const char* result_text(unsigned id);

/// Says that `function` is not emulated. Returns CUPTI_ERROR_NOT_SUPPORTED.
int refuse(const char* function);

}  // namespace emulation::cupti
