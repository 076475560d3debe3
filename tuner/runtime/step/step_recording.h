#pragma once

#include "tuner/runtime/step/running_step.h"

namespace mptune::tuner {

/// Records all replicas, links and copies to the host of the step's graph into `collector`, and tags the work of GPUs by `gpus`; with null
/// not any more. Call it between steps. `collector` and `gpus` live until they are replaced. Does what Pipeline::record() says.
void record_steps(RunningStep& step, HostCollector* collector, TagSink* gpus);

}  // namespace mptune::tuner
