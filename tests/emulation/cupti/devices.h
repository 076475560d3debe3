#pragma once

/// Records of the GPUs (CUPTI_ACTIVITY_KIND_DEVICE).

namespace emulation::cupti {

/// Writes a record for each GPU.
void write_devices();

/// The GPUs are asked for: write_due_devices() writes them once, at the next flush or when the kind is disabled.
void expect_devices();
void write_due_devices();

}  // namespace emulation::cupti
