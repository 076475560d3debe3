#pragma once

namespace emulation::cupti {

/// False where the machine has no GPU: most functions of CUPTI then fail with CUPTI_ERROR_UNKNOWN, and those that read records work.
[[nodiscard]] bool is_usable();

}  // namespace emulation::cupti
