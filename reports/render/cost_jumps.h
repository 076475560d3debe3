#pragma once

#include <string>

#include "planner/plan/file/plan_json.h"
#include "profiler/trace/values/profile.h"
#include "reports/render/style.h"

namespace mptune::reports {

/// Lists layers whose cost per sample jumps between micro-batch sizes; "" without any.
///
///     Layers of 1 ms or more that take over 1.5 times as long per sample as at the next larger size, 1 % of the step or more:
///     layer  name      samples  against  per sample  of the step  devices
///     -----  --------  -------  -------  ----------  -----------  -------
///        14  layer4.0        8       16   5.3 times         12 %  cpu/1
///       61 % in aten::_slow_conv2d_backward, at 16 samples 80 % in aten::convolution_backward; 10.2 ms instead of 41.0 ms with slow
///       kernels replaced
[[nodiscard]] std::string cost_jumps_text(const Profile& profile, const TextStyle& style);
[[nodiscard]] planner::Json cost_jumps_json(const Profile& profile);

}  // namespace mptune::reports
