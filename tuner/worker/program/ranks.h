#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tuner/runtime/between/rank_group.h"
#include "tuner/worker/messages.h"
#include "tuner/worker/program/requests.h"

namespace mptune::tuner {

/// The ranks that work on a request; null where its devices name none, or this process was started alone. On rank 0 it hands the request to
/// the others. Waits for them. Throws Error (environment) where they do not come.
[[nodiscard]] std::shared_ptr<RankGroup> ranks_for(const Request& request);

/// Another group of the same ranks, for a part of the request: it may fail while the rest goes on. Every rank makes it at the same time.
[[nodiscard]] std::shared_ptr<RankGroup> ranks_for_part(const TrainingSetup& setup, int part);

/// Runs `work` for these ranks, if there are any. What it throws ends it on the other ranks as well.
void for_ranks(const std::shared_ptr<RankGroup>& ranks, const std::function<void()>& work);

void keep_store(const StoreRequest& request, const Replies& reply);
/// `work` does a request of rank 0's. Ends the process if it still does it some seconds after rank 0 has gone on.
void serve(const ServeRequest& request, const Replies& reply, const std::function<void(const Request&)>& work);
void end_ranks(const EndRanksRequest& request, const Replies& reply);

}  // namespace mptune::tuner
