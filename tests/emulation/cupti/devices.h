#pragma once

/// Records of the GPUs (CUPTI_ACTIVITY_KIND_DEVICE).

namespace emulation::cupti {

/// Writes a record for each GPU. False: the driver isn't initialised yet, so nothing is known of GPUs.
[[nodiscard]] bool write_devices();

/// The GPUs are asked for: write_due_devices() writes them as soon as the driver is initialised.
void expect_devices();
void write_due_devices();

}  // namespace emulation::cupti
