#pragma once

/// Attributes of the activity API. All are kept; those of per-thread buffers take effect, and those of buffers on devices mean nothing
/// here.

#include <cupti.h>

#include <cstddef>

namespace emulation::cupti {

/// As cuptiActivityGetAttribute() and cuptiActivitySetAttribute(): `size` in bytes of what `value` points to, and afterwards of what the
/// attribute has.
[[nodiscard]] CUptiResult read_attribute(CUpti_ActivityAttribute attribute, std::size_t* size, void* value);
[[nodiscard]] CUptiResult write_attribute(CUpti_ActivityAttribute attribute, std::size_t* size, const void* value);

}  // namespace emulation::cupti
