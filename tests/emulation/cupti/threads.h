#pragma once

/// Numbers of threads in records.

#include <cstdint>

namespace emulation::cupti {

/// Records name threads by the system's numbers; else, as CUPTI does unless told, by the lower half of pthread_self().
void use_system_thread_numbers(bool yes);
[[nodiscard]] bool uses_system_thread_numbers();

/// Of this thread.
[[nodiscard]] std::uint32_t thread_number();

}  // namespace emulation::cupti
