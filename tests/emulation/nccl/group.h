#pragma once

/// ncclGroupStart and ncclGroupEnd: a thread's calls between them are one.

#include <functional>
#include <memory>

#include "tests/emulation/nccl/communicator.h"
#include "tests/emulation/nccl/operation.h"

namespace emulation {

void start_group();
/// Throws NcclFailure, the first of those that the group's calls meet; without a group, too.
void end_group();
/// Forgets the group's calls.
void drop_group();

/// At the end of the thread's group, or now where there is none: the operation is enqueued. Throws NcclFailure.
void add_to_group(const std::shared_ptr<Communicator>& communicator, const Operation& operation);

/// The same for what blocks until other members do it, too: those of one group run at once.
void add_to_group(const std::function<void()>& meeting);

}  // namespace emulation
