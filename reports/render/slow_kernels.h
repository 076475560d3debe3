#pragma once

#include <string>

#include "planner/plan/file/plan_json.h"
#include "profiler/trace/values/profile.h"
#include "reports/render/style.h"

namespace mptune::reports {

/// Says what replacing slow kernels is worth, for each class of devices and memory format that was measured with them replaced; "" for
/// none. Where the number is below 1, replacing them does not pay.
///
///     How many times as long forward and backward take with LibTorch's slow kernels as with oneDNN's, on cpu/1, contiguous:
///     layer  name        2 samples  4 samples  8 samples
///     -----  ----------  ---------  ---------  ---------
///         1  layer1.0         1.20       1.41       1.53
///        16  layer4.2         0.94       1.85       2.51
///            all layers       1.05       1.42       1.96
[[nodiscard]] std::string slow_kernels_text(const Profile& profile, const TextStyle& style);
[[nodiscard]] planner::Json slow_kernels_json(const Profile& profile);

}  // namespace mptune::reports
